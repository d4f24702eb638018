/* Writes a safetensors file (safetensors.h), which has sums of all data in its header.
 *
 * Role:      final models, checkpoint shards; shell (file I/O).
 * Threads:   one object, one thread.
 * Ownership: a writer is a heap object of the caller.
 */
#ifndef HSP_SAFETENSORS_WRITE_H
#define HSP_SAFETENSORS_WRITE_H
#include "proto/base/err.h"
#include "worker/state/safetensors.h"

struct hsp_folder;
struct hsp_st_writer;

/* Creates @path (an existing file is replaced) with the header of @e[0..n]; data follow in any
 * order by hsp_st_write. Tensors are laid out in the order given; @e gets their offsets. Room for
 * the whole file is reserved where the file system can do that, so that a lack of room shows here.
 * HSP_EINVAL: two tensors of one name; HSP_EIO, HSP_ENOSPC, HSP_EPERM, HSP_ENOMEM name the path. */
enum hsp_status hsp_st_create(const char *path, struct hsp_st_entry *e, size_t n,
                              const struct hsp_st_meta *meta, size_t n_meta,
                              struct hsp_st_writer **ret, struct hsp_err *err);
/* As hsp_st_create, for the file @name in a folder, where an existing file or link is deleted
 * first: a process that has it open writes into the deleted one. The folder may then be closed. */
enum hsp_status hsp_st_create_in(const struct hsp_folder *in, const char *name,
                                 const struct hsp_st_head *head, struct hsp_st_writer **ret,
                                 struct hsp_err *err);
/* Writes @bytes at @offset bytes into tensor @i: whole elements, each once. HSP_EINVAL: outside the
 * tensor, or parts of elements. */
enum hsp_status hsp_st_write(struct hsp_st_writer *w, size_t i, uint64_t offset, const void *data,
                             size_t bytes, struct hsp_err *err);
/* Adds the sums, fsync and close; the writer is gone also after an error. HSP_EINVAL: not every
 * element was written once. HSP_ESTALE: in its folder the file has been deleted or replaced. */
enum hsp_status hsp_st_finish(struct hsp_st_writer *w, struct hsp_err *err);
/* Closes without sync and removes the file, unless another writer's has its name by now. NULL is
 * fine. */
struct hsp_st_writer *hsp_st_discard(struct hsp_st_writer *w);

#endif
