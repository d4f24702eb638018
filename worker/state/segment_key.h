/* Normalizes the key of a state segment and derives its file name, so that keys compare as memory
 * and a segment is found by its key.
 *
 * Purity:  pure.
 * Example: job "tiny", device "a/0", owner "b/1", epoch 3, slot 1 in DIR is the file
 *          DIR/tiny+a+0+of+b+1+e3+s1.seg. A '/' has no place in a file name, a '+' none in a name
 *          of a device.
 */
#ifndef HSP_SEGMENT_KEY_H
#define HSP_SEGMENT_KEY_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_SEGMENT_PATH 4096

struct hsp_segment_key {
    char job[64];    /* hsp_name_valid */
    char device[80]; /* NODE/INDEX that keeps the segment */
    char owner[80];  /* device of which this is a copy; "" its own state */
    uint64_t epoch;  /* of the layout: a switch makes new segments beside the old ones */
    uint32_t slot;
};

/* @key with every byte behind a text zeroed, so that keys compare as memory. HSP_EINVAL: a name
 * with characters that no name of ours has. */
enum hsp_status hsp_segment_normal_key(const struct hsp_segment_key *key,
                                       struct hsp_segment_key *ret, struct hsp_err *err);
/* DIR/JOB+NODE+INDEX[+of+NODE+INDEX]+eEPOCH+sSLOT.seg, and the same with .tmp. HSP_ELIMIT: too
 * long. */
enum hsp_status hsp_segment_paths(const char *dir, const struct hsp_segment_key *key,
                                  char ret_path[HSP_SEGMENT_PATH], char ret_tmp[HSP_SEGMENT_PATH],
                                  struct hsp_err *err);
/* Returns true if @file is the file name of @key, a key that is in normal form. */
bool hsp_segment_key_names(const struct hsp_segment_key *key, const char *file);
/* The key of the file name @file ("tiny+a+0+e3+s1.seg"), for a segment with a damaged head. False:
 * no key has this file name; *ret untouched. */
bool hsp_segment_key_parse(const char *file, struct hsp_segment_key *ret);

#endif
