/* Holds the structures of a mesh, its links and their messages, for the files of this folder only.
 *
 * Making a mesh: mesh_listen.c the listener; mesh_auth.c hello and proofs; mesh_tls.c encrypted
 * links; mesh_join.c, mesh_call.c, mesh_answer.c and mesh_making.c the handshake; mesh_start.c the
 * start. A standing mesh, lowest first: mesh_seg.c segments; mesh_header.c headers; mesh_poll.c
 * events; mesh_bell.c wake-ups; mesh_match.c messages and their receives; mesh_shm.c links by
 * shared memory; mesh_beat.c silence; mesh_yield.c waits for another mesh; mesh_io.c sockets and
 * the I/O thread; mesh_links.c the end of links; mesh_stand.c the wait of the user thread;
 * mesh_ops.c the operations. */
#ifndef HSP_MESH_IMPL_H
#define HSP_MESH_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_seg.h"

/* ---- handshake ---- */

#define MESH_HELLO 72 /* magic, version, job, epoch, from, to, n, tls, nonce */
#define MESH_NONCE 32
#define MESH_PROOF 32

struct mesh_hello {
    uint64_t job, epoch;
    uint32_t from, to, n;
    bool tls;    /* TLS follows, else a challenge */
    bool shares; /* the sender has a segment, and would take one; not with tls */
};

/* ---- listener and the joins that wait for arrivals ---- */

#define MESH_ARRIVALS 64

struct mesh_arrival {
    int fd;
    bool local; /* by the Unix socket */
    uint8_t hello[MESH_HELLO];
    uint32_t from;
};

/* One hsp_mesh_connect under way; the caller's storage. */
struct mesh_join {
    struct mesh_join *next;
    struct mesh_hello want; /* to: this rank; from: unused */
    int wake_fd;            /* eventfd, readable when there are arrivals */
    uint32_t n_arrivals;
    struct mesh_arrival arrival[MESH_ARRIVALS];
};

/* ---- TLS of one connection ----
 *
 * Locks itself. One thread may read while another writes, but not two of one kind. Bytes that came
 * and were not read yet stay in the session, where poll does not see them. */

struct hsp_tls_ctx;
struct mesh_out;
struct mesh_tls;

/* ---- a standing mesh ---- */

#define MESH_HEADER  48
#define MESH_MAGIC   UINT32_C(0x4d707368) /* "hspM" */
#define MESH_VERSION 2
#define MESH_LONG    ((size_t)64 << 10) /* long enough for its rate to be the link's */
#define MESH_INPUT   ((size_t)16 << 10) /* per link: headers and small messages */

enum mesh_kind {
    MESH_DATA,  /* channel, sequence, length */
    MESH_BYE,   /* the sender closes in order; its earlier messages count */
    MESH_ABORT, /* channel: enum mesh_end; sequence: the lost rank; length: the rank that saw it */
    MESH_RING,  /* shared memory: look at your lanes */
    MESH_BEAT,  /* the sender is there */
};

/* Why a mesh has ended, in an ABORT. */
enum mesh_end { MESH_END_LOST, MESH_END_CANCELED, MESH_END_SILENT };

/* The wait of the user thread. */
struct hsp_mesh_wait {
    bool waits, sends; /* sends: for a message to the peer to leave; else for one from it */
    uint32_t peer;
    uint64_t since_ns;
};

/* A message to send. */
struct mesh_out {
    struct mesh_out *next;
    struct hsp_comm_req *req; /* NULL: bytes are copied behind this */
    struct hsp_runs data;
    size_t bytes, sent; /* sent: of header + bytes */
    uint8_t head[MESH_HEADER];
    uint8_t own[];
};

/* A message that came before its receive. */
struct mesh_in {
    struct mesh_in *next;
    struct hsp_comm_req *req; /* came while the message was arriving */
    uint32_t channel;
    size_t bytes, have;
    struct hsp_runs place; /* data */
    uint8_t data[];
};

struct mesh_link {
    int fd;               /* -1: this rank itself */
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* NULL: bytes go by the socket */
    bool tcp;
    bool closed;       /* the peer said BYE, or left while this rank closes: nothing more comes */
    bool out_armed;    /* EPOLLOUT is on */
    bool held_back;    /* EPOLLOUT is off though bytes wait (mesh_yield.h) */
    bool in_off;       /* EPOLLIN is off: held, or closed */
    bool writing;      /* the user thread is in the middle of a message */
    bool said;         /* something was sent since the last beat was due */
    bool talks;        /* something has come since the mesh stands: silence would be a loss */
    atomic_bool heard; /* something has come since the last look */
    uint64_t heard_ns, said_at_ns; /* time of that look; of the last beat that was due */
    uint64_t held_since_ns;        /* when the next piece was first held; 0: it is not */
    uint64_t seq_out;              /* next sequence numbers */
    uint64_t seq_in;
    _Atomic uint64_t arrived; /* bytes of messages, by the socket */
    /* sending */
    struct mesh_out *out, **out_last;
    size_t out_bytes;
    /* receiving; for the thread that runs the links */
    uint8_t *input; /* MESH_INPUT */
    size_t in_pos, in_have;
    const struct hsp_runs *dst; /* of the message under way; NULL: between messages */
    size_t dst_have, dst_bytes;
    uint64_t dst_ns;              /* when its header came; 0: its rate is not measured */
    double bytes_per_s;           /* the fastest one of late (mesh_stand.h); locked */
    struct hsp_comm_req *dst_req; /* its destination: a receive, or */
    struct mesh_in *dst_msg;      /* a buffer */
    /* locked */
    bool held; /* the message of a header has no room, until a receive is posted on this link */
    size_t held_bytes;
    uint32_t held_channel;
    struct hsp_comm_req *posted, **posted_last;
    struct mesh_in *early, **early_last;
    size_t early_bytes;
};

/* The lanes of a link by shared memory; locked. */
struct mesh_shm {
    struct seg_head *peer; /* head of the peer's segment */
    struct lane out, in;
    uint64_t head; /* of out */
    uint64_t pos;  /* of in: taken */
    bool rung;     /* the peer has been told by the socket that out is full */
    bool bye;      /* the peer has said BYE: when `in` is empty it is closed */
    bool lent;     /* the message at pos is with the caller */
    bool lending;  /* the caller waits for a message of this channel and size: */
    uint32_t lend_channel;
    size_t lend_bytes;
};

struct hsp_mesh {
    struct hsp_comm base;
    uint64_t job, epoch;
    void (*on_peer_lost)(void *ctx, const struct hsp_mesh_loss *loss, const char *why);
    void *ctx;
    uint32_t silent_ms;          /* 0: silence means nothing */
    uint64_t looked_ns;          /* for silence; of the I/O thread */
    char (*names)[80];           /* of peers, for messages */
    struct hsp_tls_ctx *tls_ctx; /* of the links' TLS, NULL: all are clear */
    int epoll_fd, wake_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    atomic_uint callers;    /* threads that wait for the lock, to look or to abort (mesh_poll.h) */
    pthread_cond_t cond;    /* for the user thread */
    pthread_cond_t io_cond; /* for the I/O thread while the user thread leads */
    struct mesh_link *link; /* n */
    bool holds;             /* some links are held back; for the thread that runs the links */
    uint64_t holds_until_ns;
    struct seg seg; /* own; head NULL: no link by shared memory */
    uint32_t n_shm; /* links by shared memory; with any of them the user thread never leads */
    uint32_t n_tcp; /* links by TCP */
    bool crowded;   /* more ranks on this host than processors: awake waits yield */
    /* locked */
    const struct hsp_mesh *yields_to; /* long messages wait for it (mesh_yield.h); NULL: for none */
    uint64_t yields_until_ns, yields_looked_ns, yields_busy_ns;
    bool led;       /* the user thread runs the links while it waits; the I/O thread is parked */
    bool wants;     /* the user thread waits, and could lead */
    bool pumping;   /* the user thread is in hsp_mesh_turn */
    bool attending; /* inside a collective: the user thread will wait again at once */
    struct hsp_mesh_wait waits; /* of the user thread, for mesh_stand.h */
    uint64_t n_pump;            /* how often the user thread was in hsp_mesh_turn */
    struct hsp_err dead;        /* code HSP_OK while alive */
    struct hsp_mesh_loss loss;  /* that killed it; rank UINT32_MAX: none */
    bool closing;               /* close has begun: a peer that goes is no loss */
    bool stop;                  /* close: the I/O thread ends */
    bool ended;                 /* the I/O thread will not touch any buffer again */
};

struct mesh_wire {
    int fd;               /* -1: none */
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* NULL: bytes go by the socket */
};

#endif
