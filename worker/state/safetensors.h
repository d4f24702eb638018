/* Reads and writes safetensors files, the exchange format of weights and checkpoints.
 *
 * Role:      final models, checkpoint shards and `init_from`; shell (file I/O).
 * Threads:   one object, one thread.
 * Ownership: reader and writer are heap objects of the caller; entries of a reader live as long as
 *            it.
 * Bounds:    header at most 100,000,000 bytes (the format's own limit), HSP_ST_MAX_TENSORS tensors.
 * Damage:    a writer puts sums of all data into the header (part_sums.h); a reader of such a file
 *            compares the sum of each part that it reads. Files of other programs have none.
 * Format:    u64 little-endian header length, JSON {"name": {"dtype", "shape", "data_offsets"},
 *            ..., "__metadata__": {string: string}}, data row-major little-endian without holes.
 */
#ifndef HSP_SAFETENSORS_H
#define HSP_SAFETENSORS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/base/err.h"
#include "proto/op/dtype.h"

#define HSP_ST_MAX_TENSORS 262144

struct hsp_st_entry {
    const char *name;
    enum hsp_dtype dtype; /* F32, F64, I32, BF16 */
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
    uint64_t begin, end; /* bytes in the data section; a writer fills them in hsp_st_create */
};
struct hsp_st_meta {
    const char *key, *value;
};

/* The contents of the header of a file. */
struct hsp_st_head {
    struct hsp_st_entry *e;
    size_t n;
    const struct hsp_st_meta *meta;
    size_t n_meta;
};

struct hsp_folder;
struct hsp_st_writer;
struct hsp_st_reader;

/* Creates @path (an existing file is replaced) with the header of @e[0..n]; data follow in any
 * order by hsp_st_write. Tensors are laid out in the order given; @e gets their offsets. Room for
 * all of it is reserved where the file system can do that, so that want of it shows here.
 * HSP_EINVAL: two tensors of one name; HSP_EIO, HSP_ENOSPC, HSP_EPERM, HSP_ENOMEM name the path. */
enum hsp_status hsp_st_create(const char *path, struct hsp_st_entry *e, size_t n,
                              const struct hsp_st_meta *meta, size_t n_meta,
                              struct hsp_st_writer **ret, struct hsp_err *err);
/* The same for the file @name in a folder, where an existing file or link is deleted first: who has
 * it open writes into the deleted one. The folder may then be closed. */
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

/* Opens and checks the whole header: HSP_EPARSE (the fault, with the name of the tensor),
 * HSP_ELIMIT, HSP_EUNSUPPORTED (a dtype or rank we do not read), HSP_ENOENT, HSP_EIO, HSP_ENOMEM.
 */
enum hsp_status hsp_st_open(const char *path, struct hsp_st_reader **ret, struct hsp_err *err);
/* The same for the file @name, which may not be a link, in a folder. The folder may then be
 * closed. */
enum hsp_status hsp_st_open_in(const struct hsp_folder *in, const char *name,
                               struct hsp_st_reader **ret, struct hsp_err *err);
size_t hsp_st_count(const struct hsp_st_reader *r);
const struct hsp_st_entry *hsp_st_at(const struct hsp_st_reader *r, size_t i);
/* Entry by name; NULL when absent. */
const struct hsp_st_entry *hsp_st_find(const struct hsp_st_reader *r, const char *name);
/* Value of a __metadata__ key; NULL when absent. */
const char *hsp_st_meta_value(const struct hsp_st_reader *r, const char *key);
/* True for a file that has sums. */
bool hsp_st_summed(const struct hsp_st_reader *r);
/* Reads @bytes at @offset bytes into the tensor. HSP_EINVAL: outside it; HSP_EIO: also a short
 * file; HSP_EDIGEST: the sum of a part of it is another, names file and tensor. */
enum hsp_status hsp_st_read(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                            uint64_t offset, void *buf, size_t bytes, struct hsp_err *err);
/* Gives back the memory (at most HSP_PART_BYTES) that reads of small pieces have taken. */
void hsp_st_relax(const struct hsp_st_reader *r);
/* Gives back the descriptor. Entries and metadata stay; a later hsp_st_read is HSP_EIO. */
void hsp_st_close_file(struct hsp_st_reader *r);
struct hsp_st_reader *hsp_st_close(struct hsp_st_reader *r);

#endif
