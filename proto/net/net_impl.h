/* Defines the connection, its states and the table, which the files of the shell in proto/net
 * share. Not included outside this folder.
 *
 *   accept: TLS|OPEN        dial: RESOLVING -> CONNECTING -> TLS|OPEN, or -> RETRYING -> PAUSING
 *   ... -> OPEN -> FLUSHING -> CLOSING -> (freed)
 *
 * RESOLVING   a name is being looked up in libuv's pool
 * CONNECTING  the kernel connects
 * RETRYING    an attempt has failed, its handle is closing
 * PAUSING     between attempts: no handle
 * TLS         handshake; no frame goes up
 * OPEN        frames both ways
 * FLUSHING    dropped by us: queued frames go out, nothing comes up
 * CLOSING     the handle closes; on_close follows */
#ifndef HSP_NET_IMPL_H
#define HSP_NET_IMPL_H

#include "proto/net/addr.h"
#include "proto/net/net.h"
#include "proto/net/strangers.h"

#define NET_READ      ((size_t)64 << 10)  /* per loop: one read is used up before the next */
#define NET_WRITE     ((size_t)256 << 10) /* plain bytes per write; TLS makes a little more of it */
#define NET_SLOT_BITS 15
#define NET_NAME      96
#define NET_TICK_MS   25   /* how late a deadline may be seen with NET_SWEEP connections */
#define NET_SWEEP     1024 /* connections one tick looks at */
#define NET_DIRECT    512  /* frames so short go out at once, without a copy, when nothing waits */
#define NET_RECORD    64   /* TLS makes no more of a short frame than this longer */
#define NET_ACCEPTS   32   /* callers a listener takes in one turn of the loop: others get theirs */

enum net_state {
    NET_FREE,
    NET_RESOLVING,
    NET_CONNECTING,
    NET_RETRYING,
    NET_PAUSING,
    NET_TLS,
    NET_OPEN,
    NET_FLUSHING,
    NET_CLOSING,
};

struct net_out {
    struct net_out *next;
    size_t len, sent;
    uint8_t data[]; /* header, body, blob */
};

struct net_dialing {
    struct hsp_addr addr;
    enum hsp_net_role role;
    uint32_t pause_ms, pause_max_ms, attempt_ms;
    uint64_t give_up_at, retry_at; /* ms; UINT64_MAX: never */
};

union net_handle {
    uv_handle_t any;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct net_conn {
    struct hsp_net *net;
    uint32_t id;
    enum net_state state;
    unsigned n_ops; /* handle, look-up: memory stays until 0 */
    bool pooled;    /* is in `pool` */
    enum hsp_net_pool pool;
    uint32_t at; /* among the strangers of its pool */
    bool told;   /* given out: on_close is due */
    bool opened; /* was OPEN once */
    bool dialled;
    bool handle_open;
    bool got_frame;
    bool writing;
    bool alert_sent; /* FLUSHING: that of TLS */
    bool shut;       /* FLUSHING: our side is closed, the peer's end is awaited */
    union net_handle h;
    uv_connect_t connect_req;
    uv_getaddrinfo_t resolve_req;
    uv_write_t write_req;
    uv_shutdown_t shutdown_req;
    uint8_t *cipher; /* the bytes of write_req under TLS */
    size_t in_write; /* plain bytes write_req carries */
    struct hsp_tls *tls;
    struct hsp_frame_parser parser;
    struct net_out *out, **out_last;
    size_t out_bytes;
    uint32_t out_frames;
    struct hsp_net_peer peer;
    char name[NET_NAME];
    struct hsp_err why;
    struct net_dialing dial;
    uint64_t deadline; /* of the handshake, the attempt, the flush; UINT64_MAX: none */
    uint64_t last_rx_ms;
    uint64_t frame_since; /* a frame began; UINT64_MAX: between frames */
};

struct net_listener {
    struct hsp_net *net;
    union net_handle h;
    bool used, open, local;
    bool held;       /* libuv has one more caller, and waits until it is taken */
    uint32_t n_turn; /* callers taken in this turn of the loop */
    char name[160];
};

struct net_pool {
    uint32_t n;
    struct hsp_stranger *list; /* NULL: no pool of strangers */
    struct net_conn **who;     /* parallel to list */
};

struct hsp_net {
    uv_loop_t *loop;
    struct hsp_net_config cfg;
    struct hsp_net_calls calls;
    void *ctx;
    struct hsp_tls_ctx *tls;
    uint32_t n_slots;
    struct net_conn **slot; /* n_slots; NULL: free */
    uint32_t *generation;   /* of each slot */
    uint32_t next_slot;     /* where to look first: slots are used in turn */
    uint32_t sweep_at;      /* where the next tick goes on */
    uint32_t n_conns;
    struct net_pool pool[HSP_NET_POOLS];
    uint64_t n_arrived; /* strangers so far */
    int spare_fd;       /* is given up for a caller that must be sent away; -1: it was */
    struct net_listener listener[HSP_NET_MAX_LISTENERS];
    unsigned n_listeners; /* open handles */
    uv_timer_t timer;
    uv_check_t turn;    /* behind the callers of a turn */
    unsigned n_handles; /* these two */
    bool closing, ending;
    void (*on_closed)(void *ctx);
    uint8_t *read_buf;  /* NET_READ */
    uint8_t *plain_buf; /* NET_READ */
};

#endif
