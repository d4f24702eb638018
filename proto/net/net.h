/* Carries framed messages over connections on a libuv loop, with bounded queues and deadlines.
 *
 * Role:      the shell of hspmdd and of the agent: listeners (TCP, Unix), dialling with retries,
 *            descriptors handed over. Frames go up by callbacks, decisions stay above.
 * Purity:    shell (libuv, TLS).
 * Threads:   the loop thread only.
 * Ownership: hsp_net owns all its connections and handles. A connection is a number: never 0, not
 *            used again before 2^17 others had its slot.
 * Bounds:    connections of each pool, write queue (bytes and frames), frame sizes, times:
 *            hsp_net_config.
 *
 * Callbacks come from the loop, never inside the call that caused them (hsp_net_adopt opens at once
 * and has no on_open). Each connection that was given out by hsp_net_dial, hsp_net_adopt or on_open
 * gets exactly one on_close; after it, and after hsp_net_drop, no more frames come.
 *
 * Trust: with keys every TCP connection is TLS 1.3, and peer.role says which key the client holds.
 * Without keys there is no TCP, except on loopback where clear_loopback asks for it: every user of
 * a host may dial its ports, and listen on them. Unix sockets are trusted as far as the kernel's
 * word on the peer's uid goes; the caller decides what that uid may do.
 */
#ifndef HSP_NET_H
#define HSP_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "proto/net/tls_psk.h"
#include "proto/wire/msg.h"

#define HSP_NET_MAX_CONNS     32768 /* slot bits of a connection number: 15 */
#define HSP_NET_ENDING        256u  /* of these for connections whose handles are closing */
#define HSP_NET_MAX_PLACES    (HSP_NET_MAX_CONNS - HSP_NET_ENDING)
#define HSP_NET_MAX_LISTENERS 8

struct hsp_net;

struct hsp_net_peer {
    const char *name; /* "10.0.0.7:4410", "uid 1000 pid 77"; borrowed for the call */
    enum hsp_net_role role;
    uid_t uid; /* role LOCAL */
    gid_t gid;
    pid_t pid;
    uint32_t listener; /* number of the listener it came by; UINT32_MAX: dialled */
    uint64_t
        source; /* the same for all that come from one address, or are one user; 0: not known */
};

struct hsp_net_calls {
    void (*on_open)(void *ctx, uint32_t conn, const struct hsp_net_peer *peer);
    /* The frame is borrowed; to keep body or blob, take the pointer and set it to NULL there. */
    void (*on_frame)(void *ctx, uint32_t conn, struct hsp_frame *f);
    /* @why is HSP_ECLOSED if the peer closed, HSP_ECANCELED if hsp_net_drop ended the connection,
     * HSP_EPROTO, HSP_ELIMIT or HSP_EVERSION if a wrong frame came, else HSP_ETIMEDOUT, HSP_EAUTH
     * or HSP_EIO. */
    void (*on_close)(void *ctx, uint32_t conn, const struct hsp_err *why);
    /* Tells the log of a caller that never came to on_open (no key, too slow, too many). With
     * HSP_EAUTH, peer->role is the role whose key the caller named, while it holds another key;
     * else peer->role is NONE. The name is that of the listener if no caller is known. May be
     * NULL. */
    void (*on_refuse)(void *ctx, const struct hsp_net_peer *peer, const struct hsp_err *why);
};

/* Connections are counted by pool, so callers of one kind never take places of another kind. A new
 * caller is a stranger until hsp_net_admit. When all places of strangers are taken, strangers.h
 * chooses the stranger that a new caller replaces. */
enum hsp_net_pool {
    HSP_POOL_OWN,       /* dialled, or a descriptor handed over */
    HSP_POOL_STRANGERS, /* came by TCP */
    HSP_POOL_VISITORS,  /* came by a Unix socket */
    HSP_POOL_AGENTS,
    HSP_POOL_ADMINS, /* by TCP */
    HSP_POOL_LOCAL,  /* administrators on a Unix socket */
};
#define HSP_NET_POOLS 6

struct hsp_net_config {
    uint32_t places[HSP_NET_POOLS]; /* together at most HSP_NET_MAX_PLACES */
    struct hsp_frame_limits limits; /* of frames received */
    uint32_t handshake_ms;          /* from accept or connect until the first whole frame */
    uint32_t frame_ms;              /* a frame that has begun is whole by then */
    uint32_t idle_ms;               /* without a byte; 0: for ever */
    uint32_t flush_ms;              /* hsp_net_drop with flush */
    uint32_t kept_ms;               /* a stranger with a key keeps its place so long for certain */
    size_t queue_bytes;             /* per connection, sent and not yet taken by the kernel */
    uint32_t queue_frames;
    struct hsp_net_keys keys;
    bool clear_loopback; /* without keys TCP is served and dialled on loopback: for tests */
};
/* No places yet, frame.h's limits, 10 s, 60 s, no idle
 * limit, 2 s, 0.5 s, 128 MiB, 4096 frames, no keys, no clear TCP. */
void hsp_net_defaults(struct hsp_net_config *ret);
/* Returns the length of a table that has a place for each possible connection (hsp_net_slot). */
uint32_t hsp_net_table_size(const struct hsp_net_config *cfg);

/* @calls is copied. HSP_EINVAL, HSP_ENOMEM. */
enum hsp_status hsp_net_new(uv_loop_t *loop, const struct hsp_net_config *cfg,
                            const struct hsp_net_calls *calls, void *ctx, struct hsp_net **ret,
                            struct hsp_err *err);
/* Stops listening and dialling, drops all connections (flushing), calls their on_close, then frees
 * @n and calls @on_closed with the ctx of new. */
void hsp_net_close(struct hsp_net *n, void (*on_closed)(void *ctx));

struct hsp_net_dial {
    const char *address;
    enum hsp_net_role role; /* TCP with keys: WORKER or ADMIN, whose key to use */
    uint32_t pause_ms;      /* between attempts, doubled each time; 0: one attempt */
    uint32_t pause_max_ms;
    uint32_t give_up_ms; /* no attempt starts after that; 0: never */
    uint32_t attempt_ms; /* of one attempt, TLS included; 0: handshake_ms */
};

/* Takes over a connected socket (an end of a socketpair), as a connection that is open at once. On
 * error the caller keeps @fd. */
enum hsp_status hsp_net_adopt(struct hsp_net *n, int fd, const char *name, uint32_t *ret_conn,
                              struct hsp_err *err);

/* Queues a frame; version, flags and lengths of @head are filled in. Body and blob are copied.
 * HSP_AGAIN: the queue is full, nothing was queued; HSP_ECLOSED: no such connection, or not open;
 * HSP_ELIMIT: longer than any peer takes; HSP_ENOMEM. */
enum hsp_status hsp_net_send(struct hsp_net *n, uint32_t conn, const struct hsp_frame_header *head,
                             const void *body, size_t body_len, const void *blob, size_t blob_len,
                             struct hsp_err *err);
/* Encodes a message and queues it as hsp_net_send does. @body is a buffer for the encoded text, and
 * is emptied first. Returns the errors of hsp_net_send and of hsp_msg_encode. */
enum hsp_status hsp_net_send_msg(struct hsp_net *n, uint32_t conn, const struct hsp_msg *m,
                                 struct hsp_buf *body, struct hsp_err *err);
/* Returns the place of a connection in a table of hsp_net_table_size. */
static inline uint32_t hsp_net_slot(uint32_t conn)
{
    return conn & (HSP_NET_MAX_CONNS - 1);
}

/* Admits a stranger: the connection @conn gives up its place among the strangers and takes one in
 * @pool. HSP_ELIMIT: all places of @pool are taken, and the connection stays a stranger.
 * HSP_ECLOSED: there is no connection of this number, or it is not open. */
enum hsp_status hsp_net_admit(struct hsp_net *n, uint32_t conn, enum hsp_net_pool pool,
                              struct hsp_err *err);

/* Ends a connection. With @flush, queued frames are sent first, for at most flush_ms. An unknown
 * connection is ignored.
 */
void hsp_net_drop(struct hsp_net *n, uint32_t conn, bool flush, const char *why);
/* Sets the name of a connection in the log, such as "worker a @10.0.0.7:4410". */
void hsp_net_set_name(struct hsp_net *n, uint32_t conn, const char *name);
const char *hsp_net_name(const struct hsp_net *n, uint32_t conn); /* "closed" for an unknown one */

#endif
