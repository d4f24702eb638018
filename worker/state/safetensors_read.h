/* Reads a safetensors file (safetensors.h).
 *
 * Role:      checkpoint shards and `init_from`; shell (file I/O).
 * Threads:   one object, one thread.
 * Ownership: a reader is a heap object of the caller; its entries live as long as it.
 */
#ifndef HSP_SAFETENSORS_READ_H
#define HSP_SAFETENSORS_READ_H
#include "proto/base/err.h"
#include "worker/state/safetensors.h"

struct hsp_folder;
struct hsp_st_reader;

/* Opens and checks the whole header: HSP_EPARSE (the fault, with the name of the tensor),
 * HSP_ELIMIT, HSP_EUNSUPPORTED (a dtype or rank we do not read), HSP_ENOENT, HSP_EIO, HSP_ENOMEM.
 */
enum hsp_status hsp_st_open(const char *path, struct hsp_st_reader **ret, struct hsp_err *err);
/* As hsp_st_open, for the file @name, which may not be a link, in a folder. The folder may then be
 * closed. */
enum hsp_status hsp_st_open_in(const struct hsp_folder *in, const char *name,
                               struct hsp_st_reader **ret, struct hsp_err *err);
/* All entries, in the order of the header. */
const struct hsp_st_entry *hsp_st_entries(const struct hsp_st_reader *r, size_t *ret_n);
/* Entry by name; NULL when absent. */
const struct hsp_st_entry *hsp_st_find(const struct hsp_st_reader *r, const char *name);
/* Value of a __metadata__ key; NULL when absent. */
const char *hsp_st_meta_value(const struct hsp_st_reader *r, const char *key);
/* True for a file that has sums. */
bool hsp_st_summed(const struct hsp_st_reader *r);
/* Reads @bytes at @offset bytes into the tensor. HSP_EINVAL: outside it; HSP_EIO: also a short
 * file; HSP_EDIGEST: a part does not fit its sum, names file and tensor. */
enum hsp_status hsp_st_read(const struct hsp_st_reader *r, const struct hsp_st_entry *e,
                            uint64_t offset, void *buf, size_t bytes, struct hsp_err *err);
/* Gives back the memory (at most HSP_PART_BYTES) that reads of small pieces have taken. */
void hsp_st_relax(const struct hsp_st_reader *r);
/* Gives back the descriptor. Entries and metadata stay; a later hsp_st_read is HSP_EIO. */
void hsp_st_close_file(struct hsp_st_reader *r);
struct hsp_st_reader *hsp_st_close(struct hsp_st_reader *r);

#endif
