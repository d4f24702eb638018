/* Names state segments: job, device, ranks and layout become the key of a file, and back.
 *
 * Role:    executors name their segments; the agent scans them for HELLO, SEAL and RELEASE.
 * Purity:  hsp_segname_scan, _tidy, _tidy_device and _discard work on the state directory; the rest
 *          is pure. */
#ifndef HSP_SEGMENT_NAME_H
#define HSP_SEGMENT_NAME_H
#include <limits.h>

#include "proto/wire/msg.h"
#include "worker/state/segment_dir.h"

struct hsp_segname {
    uint32_t job, device;
    uint32_t rank, owner; /* in the layout; owner == rank: its own home */
    uint64_t plan;        /* layout */
    uint32_t slot;
};

void hsp_segname_key(const struct hsp_segname *n, struct hsp_segment_key *ret);
/* Returns false if it is not a name of ours. */
bool hsp_segname_parse(const struct hsp_segment_key *key, struct hsp_segname *ret);

/* Gets the name of a scanned file, even if the file cannot be used. Returns false if the file is
 * none of ours, or a copy under another name, which is left alone. */
bool hsp_segname_of(const struct hsp_segment_info *file, struct hsp_segname *ret);

/* Lists every sealed segment in @dir; *ret is released with free(). A directory that is not there
 * has none. The newest jobs come first, of one job its newest layouts, of one layout its newest
 * versions: a message with room for fewer loses the oldest. Damaged files are passed over: they are
 * no source. HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_segname_scan(const char *dir, struct hsp_m_holding **ret, uint32_t *ret_n,
                                 struct hsp_err *err);
/* For an agent that begins, before it has executors: deletes unsealed and unfinished segments,
 * since their writers died with the agent before, and segments with a damaged head or seal, which
 * nobody can read. *ret lists the damaged segments; free(). @ret_copy: the name of a file that is a
 * copy of a segment under another name, and stays; "" there is none. HSP_EIO; HSP_ENOMEM: deletes
 * none. */
enum hsp_status hsp_segname_tidy(const char *dir, struct hsp_m_damaged **ret, uint32_t *ret_n,
                                 char ret_copy[HSP_SEGMENT_FILE], struct hsp_err *err);
/* For an executor that begins: deletes the segments of its device that the process before it has
 * not finished, or has not sealed. HSP_EIO; HSP_ENOMEM: deletes none. */
enum hsp_status hsp_segname_tidy_device(const char *dir, uint32_t device, struct hsp_err *err);
/* The file in which a device notes the metrics of a job's steps (step_log.h). */
void hsp_segname_notes(const char *dir, uint32_t job, uint32_t device, char out[PATH_MAX]);
/* Deletes the segments of (job, device) with layouts below @keep_plan (0: all), also segments with
 * a damaged head, by their names. With the last segment go the notes of the device. Papers stay:
 * they are the agent's (kept.h). HSP_EIO; HSP_ENOMEM: deletes none. */
enum hsp_status hsp_segname_discard(const char *dir, uint32_t job, uint32_t device,
                                    uint64_t keep_plan, struct hsp_err *err);

#endif
