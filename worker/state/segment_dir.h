/* Names of state segments in their directory; used by segment.c and segment_dir.c only. */
#ifndef HSP_SEGMENT_DIR_H
#define HSP_SEGMENT_DIR_H
#include "worker/state/segment.h"

#define HSP_SEGMENT_PATH 4096

/* @key with every byte behind a text zeroed, so that keys compare as memory. HSP_EINVAL: a name
 * with characters that no name of ours has. */
enum hsp_status hsp_segment_normal_key(const struct hsp_segment_key *key,
                                       struct hsp_segment_key *ret, struct hsp_err *err);
/* DIR/JOB+NODE+INDEX[+of+NODE+INDEX]+eEPOCH+sSLOT.seg, and the same with .tmp. HSP_ELIMIT: too
 * long. */
enum hsp_status hsp_segment_paths(const char *dir, const struct hsp_segment_key *key,
                                  char ret_path[HSP_SEGMENT_PATH], char ret_tmp[HSP_SEGMENT_PATH],
                                  struct hsp_err *err);
/* What is there, sorted by file name; left-overs of unfinished creations are deleted. *ret is
 * released with free(). HSP_ENOENT, HSP_EIO, HSP_ELIMIT; HSP_ENOMEM: also to look at one of them. */
enum hsp_status hsp_segment_scan(const char *dir, struct hsp_segment_info **ret, size_t *ret_n,
                                 struct hsp_err *err);
/* Deletes one file; no error when it is not there. */
enum hsp_status hsp_segment_remove(const char *dir, const struct hsp_segment_key *key,
                                   struct hsp_err *err);
/* Deletes all files of a job with an epoch below @below (UINT64_MAX: all), damaged ones too. */
enum hsp_status hsp_segment_sweep(const char *dir, const char *job, uint64_t below,
                                  struct hsp_err *err);

#endif
