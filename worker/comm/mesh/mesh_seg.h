/* Lays out and maps the shared memory of one rank for one mesh: a segment with a head and, for
 * every peer on this host, a lane. In a lane this rank writes a stream of bytes that the peer
 * reads.
 *
 * Role:      layout and mapping; mesh_shm.c moves messages through it. Used in this folder only.
 * Purity:    shell (memfd_create, mmap, SCM_RIGHTS).
 * Trust:     a peer may write anything into the memory that it maps, at any time. Counters read
 *            from here are checked against the counters of this rank, and sizes come from
 *            constants. A segment is accepted only if it is sealed against shrinking and has the
 *            right size. Its pages are allocated when it is mapped, so touching them cannot fail
 *            later.
 * Bounds:    a lane is mapped twice in a row, so that any stretch of it is contiguous. */
#ifndef HSP_MESH_SEG_H
#define HSP_MESH_SEG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define SEG_ALIGN 64 /* of messages in a lane, and of counters */

/* The place of a rank's user thread. */
enum seg_where {
    SEG_AWAY,   /* in no operation: only its I/O thread can be reached, by the socket */
    SEG_IN,     /* awake, looking at the lanes */
    SEG_ASLEEP, /* on its bell */
};

/* The abort word, never 0: SET, the reason (enum mesh_end) << 60, the lost rank << 40, the rank
 * that saw the loss << 20, and the rank that tells of it. */
#define SEG_ABORT_SET  (UINT64_C(1) << 63)
#define SEG_ABORT_RANK 0xfffffu

/* The first page of a segment. Its owner and the peers write. */
struct seg_head {
    _Alignas(SEG_ALIGN) _Atomic uint32_t bell;  /* a futex that counts events */
    _Atomic uint32_t where;                     /* enum seg_where */
    _Alignas(SEG_ALIGN) _Atomic uint64_t abort; /* 0: none */
};

/* The first page of a lane. */
struct lane_head {
    /* bytes written since the beginning; by the writer */
    _Alignas(SEG_ALIGN) _Atomic uint64_t head;
    _Alignas(SEG_ALIGN) _Atomic uint32_t hungry; /* the writer waits for room */
    /* bytes taken, a multiple of SEG_ALIGN; by the reader */
    _Alignas(SEG_ALIGN) _Atomic uint64_t tail;
};

struct seg {
    int fd; /* -1: none */
    uint32_t n;
    struct seg_head *head; /* mapped */
};

struct lane {
    struct lane_head *head; /* NULL: not mapped */
    uint8_t *data;          /* 2 * bytes, the second half the same memory as the first */
    size_t bytes;
};

/* Bytes of a lane in a mesh of @n, equal on all ranks. */
size_t hsp_seg_lane_bytes(uint32_t n);

/* Makes a segment for a mesh of @n ranks. HSP_EIO: with the reason (memory limit, RLIMIT_FSIZE,
 * ..). */
enum hsp_status hsp_seg_new(uint32_t n, struct seg *ret, struct hsp_err *err);
/* Closes the descriptor; mappings stay. */
void hsp_seg_close_fd(struct seg *s);
/* Closes and unmaps. A segment with fd -1 and no head is none. */
void hsp_seg_free(struct seg *s);

/* Maps the lane of @s to rank @peer. HSP_EIO as above. */
enum hsp_status hsp_seg_lane(const struct seg *s, uint32_t peer, struct lane *ret,
                             struct hsp_err *err);
/* Maps the head of a peer's segment and its lane to rank @me. @fd stays the caller's. HSP_EPROTO:
 * not a segment of a mesh of @n, or not sealed. HSP_EIO. */
enum hsp_status hsp_seg_attach(int fd, uint32_t n, uint32_t me, struct seg_head **ret_head,
                               struct lane *ret_lane, struct hsp_err *err);
void hsp_seg_detach(struct seg_head *head); /* NULL allowed */
void hsp_lane_unmap(struct lane *l);        /* the zeroed one allowed */

/* Sends one byte over a Unix socket, with a descriptor (-1: without). Returns false if it did not
 * fit. */
bool hsp_seg_send(int sock, uint8_t byte, int fd);
/* Receives such a byte: 1; 0: nothing there; -1: the end, or an error. *ret_fd is -1 or the
 * caller's. */
int hsp_seg_recv(int sock, uint8_t *ret, int *ret_fd);

#endif
