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
enum hsp_status hsp_segment_open_path(const char *path, bool writable,
                                      struct hsp_state_segment **ret, struct hsp_err *err);

#endif
