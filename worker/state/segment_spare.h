/* Keeps the file of a deleted segment as a spare, whose pages the next segment of the device takes:
 * no page of it is reserved, mapped or pinned again.
 *
 * Example:   layout 7 is released. Its segment job-4+0+2+e7+s0.seg is unsealed and becomes
 *            job-4+0+2+e7+s0.tmp, and stays mapped. Layout 9 is prepared: the file gets the head of
 *            a new segment and the name job-4+0+2+e9+s0.seg. Or another executor lacks room before
 *            that: it deletes the file, and frees its pages under the mapping.
 * Format:    a spare has the name of a segment in the making, and the first word of a segment. A
 *            segment in the making begins with zeros, and is locked until it has its name. So any
 *            version of an agent, or of an executor of the device, deletes a spare when it begins,
 *            as it does with files that others left.
 * Purity:    shell (files of one folder).
 * Threads:   any, in all processes that share the folder. A lock on the file (flock) says whose it
 *            is: its executor locks it before it touches the pages, others before they cut it.
 */
#ifndef HSP_SEGMENT_SPARE_H
#define HSP_SEGMENT_SPARE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HSP_SEGMENT_MAGIC 0x31474553504d5348ULL /* "HSPMSEG1" */

/* Identifies a file under any name. */
struct hsp_segment_file {
    dev_t dev;
    ino_t ino;
};

/* Returns true if @path is the name of @f. */
bool hsp_segment_file_is(const char *path, const struct hsp_segment_file *f);
/* Locks the spare @path, if it is still @f and has @bytes. No other process cuts it until the
 * descriptor that this returns is closed. Below 0: the spare is gone. */
int hsp_spare_lock(const char *path, const struct hsp_segment_file *f, uint64_t bytes);
/* Deletes all spares of @dir that nobody has locked, with their pages. */
void hsp_spare_cut(const char *dir);
/* Bytes that hsp_spare_cut would free. */
uint64_t hsp_spare_bytes(const char *dir);

#endif
