/* Takes the memory of a segment in pieces, so that its caller can give up between two of them.
 *
 * Example:   a segment of 40 GiB has 160 pieces. DROP comes in the tenth piece. The next question
 *            has the answer "over", so the call ends with HSP_ECANCELED and DROPPED is sent.
 * Purity:    shell (a file, a mapping).
 * Threads:   the caller's. Its question is asked on that thread.
 * Bounds:    HSP_ROOM_PIECE between two questions.
 */
#ifndef HSP_SEGMENT_ROOM_H
#define HSP_SEGMENT_ROOM_H
#include <stdint.h>

#include "proto/base/err.h"
#include "worker/state/segment_free.h"

/* An executor has 1 s to answer SEAL (worker/agent/obey.h). */
#define HSP_ROOM_PIECE ((size_t)256 << 20)

/* Gives file @fd, of name @path in folder @dir, @bytes that no other file can take. Where there is
 * too little room, or no more, it waits for the memory of deleted segments first. HSP_ECANCELED:
 * @stop has said so; HSP_ENOSPC: the message says how many bytes did not fit; HSP_ELIMIT, HSP_EIO,
 * HSP_EPERM, HSP_ENOMEM. After an error the file has a part of its room. */
enum hsp_status hsp_room_take(const char *dir, int fd, uint64_t bytes, const char *path,
                              const struct hsp_segment_stop *stop, struct hsp_err *err);
/* Maps all pages of @map, which is writable, now: otherwise the first use of each page is a fault,
 * in a switch. A kernel before 5.14 does not do this, and that is no error. HSP_ECANCELED: @stop
 * has said so. */
enum hsp_status hsp_room_map(void *map, size_t bytes, const struct hsp_segment_stop *stop,
                             struct hsp_err *err);

#endif
