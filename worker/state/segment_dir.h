/* Lists and deletes the state segments of a folder, so that an agent offers sealed segments and
 * frees those that no layout needs.
 *
 * Purity:  shell (the files of one folder).
 */
#ifndef HSP_SEGMENT_DIR_H
#define HSP_SEGMENT_DIR_H
#include "worker/state/segment.h"

#define HSP_SEGMENT_FILE 256 /* a file name */

/* One file of a scan. */
struct hsp_segment_info {
    char file[HSP_SEGMENT_FILE];
    enum hsp_status status; /* HSP_OK, or why it cannot be used; then only file is set, and of a
                               damaged one (HSP_EDIGEST) the key that its name tells, job "" none.
                               HSP_EINVAL: a copy, or renamed: its head is that of another name */
    struct hsp_segment_key key;
    struct hsp_whose whose;
    uint64_t version; /* HSP_NO_VERSION: unsealed */
    uint64_t content;
    uint64_t file_bytes;
};

/* Lists the segments of @dir, sorted by file name. Folders are passed over. *ret is released with
 * free(). HSP_ENOENT, HSP_ELIMIT. HSP_EIO: the folder was not read to its end. HSP_ENOMEM: no
 * memory for the list, or to open one of the segments. */
enum hsp_status hsp_segment_scan(const char *dir, struct hsp_segment_info **ret, size_t *ret_n,
                                 struct hsp_err *err);
/* Deletes one file; an absent file is no error. Its memory becomes free soon (segment_free.h). */
enum hsp_status hsp_segment_remove(const char *dir, const struct hsp_segment_key *key,
                                   struct hsp_err *err);

typedef bool hsp_segment_filter(const struct hsp_segment_key *key, const void *ctx);
/* Deletes the files of segments whose creation was not finished, for the keys that @which accepts
 * (NULL: all keys). The processes that began these files must be dead. HSP_ENOENT, HSP_ELIMIT,
 * HSP_EIO. */
enum hsp_status hsp_segment_remove_unfinished(const char *dir, hsp_segment_filter *which,
                                              const void *ctx, struct hsp_err *err);

#endif
