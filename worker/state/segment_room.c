/* Takes the memory of a segment. The happy path: each piece of the file is reserved, later each
 * piece of its mapping is populated.
 *
 * Possible failure modes: no room (posix_fallocate says so before any write can raise SIGBUS); a
 * stop (the caller frees the pieces taken); a signal in a piece (that piece is taken again);
 * another executor that takes room at the same time (that piece is taken again when the memory of
 * deleted segments is free). */
#include "worker/state/segment_room.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "worker/state/io_error.h"
#include "worker/state/segment_spare.h"

static bool has_room(int fd, uint64_t bytes)
{
    struct statvfs fs;
    return fstatvfs(fd, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= bytes;
}

/* Makes room of spares, or waits for that of deleted segments. */
static void make_room(const char *dir, int fd, uint64_t bytes, const struct hsp_segment_stop *stop)
{
    hsp_spare_cut(dir);
    if (!has_room(fd, bytes)) {
        hsp_segment_await_free(dir, stop);
    }
}

static enum hsp_status given_up(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ECANCELED, 0, "the segment is not wanted any more");
}

/* Bytes of the next piece, where @rest bytes are left. */
static uint64_t piece(uint64_t rest)
{
    return rest < HSP_ROOM_PIECE ? rest : HSP_ROOM_PIECE;
}

/* Reserves a piece of the file. Returns an errno, or 0. */
static int reserve(int fd, uint64_t at, uint64_t bytes)
{
    int rc;
    do {
        rc = posix_fallocate(fd, (off_t)at, (off_t)bytes);
    } while (rc == EINTR);
    return rc;
}

enum hsp_status hsp_room_take(const char *dir, int fd, uint64_t bytes, const char *path,
                              const struct hsp_segment_stop *stop, struct hsp_err *err)
{
    if (!has_room(fd, bytes)) {
        make_room(dir, fd, bytes, stop);
    }
    if (ftruncate(fd, (off_t)bytes) != 0) {
        return hsp_state_io_error(err, "cannot extend", path);
    }
    for (uint64_t at = 0; at < bytes; at += HSP_ROOM_PIECE) {
        if (hsp_segment_stopped(stop)) {
            return given_up(err);
        }
        int rc = reserve(fd, at, piece(bytes - at));
        if (rc == ENOSPC) { /* another segment has taken the room that was there */
            hsp_spare_cut(dir);
            hsp_segment_await_free(dir, stop);
            if (hsp_segment_stopped(stop)) {
                return given_up(err);
            }
            rc = reserve(fd, at, piece(bytes - at));
        }
        if (rc != 0) {
            char what[64];
            (void)snprintf(what, sizeof(what),
                           "no room for a state segment of %" PRIu64 " bytes at", bytes);
            errno = rc;
            return hsp_state_io_error(err, what, path);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_room_map(void *map, size_t bytes, const struct hsp_segment_stop *stop,
                             struct hsp_err *err)
{
    bool can = true;
    for (size_t at = 0; can && at < bytes; at += HSP_ROOM_PIECE) {
        if (hsp_segment_stopped(stop)) {
            return given_up(err);
        }
        can = madvise((uint8_t *)map + at, piece(bytes - at), MADV_POPULATE_WRITE) == 0;
    }
    return HSP_OK;
}
