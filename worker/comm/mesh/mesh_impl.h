/* Inside of the mesh: what its files share. Not included outside this folder.
 *
 * mesh_auth.c hello and proofs; mesh_tls.c encrypted links; mesh_listen.c the listener; mesh_join.c, mesh_call.c and
 * mesh_answer.c the handshake; mesh_start.c beginning and end; mesh_ops.c the operations; mesh_match.c messages and
 * their receives; mesh_io.c sockets and the I/O thread; mesh_seg.c segments; mesh_shm.c links by shared memory. */
#ifndef HSP_MESH_IMPL_H
#define HSP_MESH_IMPL_H

#include <pthread.h>
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

/* Writes a hello with a fresh nonce. False without randomness. */
bool hsp_mesh_hello_make(const struct mesh_hello *h, uint8_t ret[MESH_HELLO]);
bool hsp_mesh_hello_read(const uint8_t raw[MESH_HELLO], struct mesh_hello *ret);
bool hsp_mesh_nonce(uint8_t ret[MESH_NONCE]);
/* What the server (or the client) answers to this hello and this nonce of the server. */
bool hsp_mesh_proof(const uint8_t key[HSP_MESH_KEY_BYTES], bool server,
                    const uint8_t hello[MESH_HELLO], const uint8_t nonce[MESH_NONCE],
                    uint8_t ret[MESH_PROOF]);
/* The secret of a TLS connection that begins with this hello. */
bool hsp_mesh_secret(const uint8_t key[HSP_MESH_KEY_BYTES], const uint8_t hello[MESH_HELLO],
                     uint8_t ret[MESH_PROOF]);
bool hsp_mesh_proof_equal(const uint8_t a[MESH_PROOF], const uint8_t b[MESH_PROOF]);

/* ---- listener and the joins that wait for arrivals ---- */

#define MESH_ARRIVALS 64

struct mesh_arrival {
    int fd;
    bool local; /* by the Unix socket */
    uint8_t hello[MESH_HELLO];
    uint32_t from;
};

enum hsp_mesh_transport hsp_mesh_transport_of(const struct hsp_mesh_listener *l);

/* One hsp_mesh_connect under way; the caller's storage. */
struct mesh_join {
    struct mesh_join *next;
    struct mesh_hello want; /* to: this rank; from: unused */
    int wake_fd;            /* eventfd, readable when there are arrivals */
    uint32_t n_arrivals;
    struct mesh_arrival arrival[MESH_ARRIVALS];
};

enum hsp_status hsp_mesh_join_open(struct hsp_mesh_listener *l, struct mesh_join *j,
                                   struct hsp_err *err);
/* Takes one arrival; false: none. */
bool hsp_mesh_join_take(struct hsp_mesh_listener *l, struct mesh_join *j, struct mesh_arrival *ret);
void hsp_mesh_join_close(struct hsp_mesh_listener *l, struct mesh_join *j);

/* Starts a connection to an address; @local: by its Unix socket, if it is on this host.
 * Returns a non-blocking descriptor (@ret_wait: connecting still), or -errno; -ENOENT when @local
 * and the address has none on this host. */
int hsp_mesh_dial(const char *address, bool local, bool *ret_wait);
/* Whether all addresses name local sockets of one host: the same answer at every rank. */
bool hsp_mesh_one_host(const struct hsp_mesh_peer *peers, uint32_t n);
uint64_t hsp_mesh_now_ms(void);
uint64_t hsp_mesh_now_ns(void);

/* ---- TLS of one connection ----
 *
 * Locks itself: one thread may read while another writes; of each kind one at a time. Bytes that came
 * and were not read yet stay in it, unseen by poll. */

struct hsp_tls_ctx;
struct mesh_out;
struct mesh_tls;
/* @key: the epoch's. Both ends give the hello of the connection. */
enum hsp_status hsp_mesh_tls_new(struct hsp_tls_ctx *ctx, bool server,
                                 const uint8_t key[HSP_MESH_KEY_BYTES],
                                 const uint8_t hello[MESH_HELLO], struct mesh_tls **ret,
                                 struct hsp_err *err);
struct mesh_tls *hsp_mesh_tls_free(struct mesh_tls *t); /* NULL allowed; returns NULL */
/* Goes on with the handshake. HSP_OK: both hold the key; HSP_AGAIN: waits for the peer; HSP_EAUTH;
 * HSP_EIO: the socket did not take the answer. */
enum hsp_status hsp_mesh_tls_shake(struct mesh_tls *t, int fd, struct hsp_err *err);
/* Takes in what the socket has. > 0: bytes; 0: its end; -errno. */
ssize_t hsp_mesh_tls_fill(struct mesh_tls *t, int fd);
/* Decrypts up to @cap bytes of what was taken in. HSP_AGAIN: no more; else the stream is broken. */
enum hsp_status hsp_mesh_tls_read(struct mesh_tls *t, void *buf, size_t cap, size_t *ret_n,
                                  struct hsp_err *err);
/* As hsp_mesh_write_some. */
int hsp_mesh_tls_write_some(struct mesh_tls *t, int fd, struct mesh_out *o, size_t most);
/* A few bytes, at once or not at all. */
bool hsp_mesh_tls_say(struct mesh_tls *t, int fd, const void *p, size_t n);

/* ---- a standing mesh ---- */

#define MESH_HEADER  48
#define MESH_MAGIC   UINT32_C(0x4d707368) /* "hspM" */
#define MESH_VERSION 1
#define MESH_INPUT   ((size_t)16 << 10) /* per link: headers and small messages */

enum mesh_kind {
    MESH_DATA,  /* channel, sequence, length */
    MESH_BYE,   /* the sender closes in order: what it sent before counts */
    MESH_ABORT, /* channel: status; sequence: the rank that was lost */
    MESH_RING,  /* shared memory: look at your lanes */
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
    bool closed;      /* said BYE, or is gone after it: nothing more comes */
    bool out_armed;   /* EPOLLOUT is on */
    bool in_off;      /* EPOLLIN is off: held, or closed */
    bool writing;     /* the user thread is in the middle of a message */
    uint64_t seq_out; /* next sequence numbers */
    uint64_t seq_in;
    /* sending */
    struct mesh_out *out, **out_last;
    size_t out_bytes;
    /* receiving; of who runs the links */
    uint8_t *input; /* MESH_INPUT */
    size_t in_pos, in_have;
    const struct hsp_runs *dst; /* of the message under way; NULL: between messages */
    size_t dst_have, dst_bytes;
    struct hsp_comm_req *dst_req; /* where it goes: a receive, or */
    struct mesh_in *dst_msg;      /* a buffer */
    /* locked */
    bool held; /* the message of a header has no room, until a receive is posted on this link */
    size_t held_bytes;
    uint32_t held_channel;
    struct hsp_comm_req *posted, **posted_last;
    struct mesh_in *early, **early_last;
    size_t early_bytes;
};

struct hsp_mesh {
    struct hsp_comm base;
    uint64_t job, epoch;
    void (*on_peer_lost)(void *ctx, uint32_t rank, const char *why);
    void *ctx;
    char (*names)[80];           /* of peers, for messages */
    struct hsp_tls_ctx *tls_ctx; /* of the links' TLS, NULL: all are clear */
    int epoll_fd, wake_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;    /* for the user thread */
    pthread_cond_t io_cond; /* for the I/O thread while the user thread leads */
    struct mesh_link *link; /* n */
    struct seg seg;         /* own; head NULL: no link by shared memory */
    uint32_t n_shm;         /* links by it. With any of them the user thread never leads */
    bool crowded; /* more ranks on this host than processors: who waits awake makes room */
    /* locked */
    bool led;        /* the user thread runs the links while it waits; the I/O thread is parked */
    bool wants;      /* it waits, and would */
    bool pumping;    /* it is in hsp_mesh_turn */
    bool attending;  /* inside a collective: it will wait again at once */
    uint64_t n_pump; /* times it was */
    struct hsp_err dead; /* code HSP_OK while alive */
    uint32_t lost;       /* the rank whose loss killed it, UINT32_MAX: none */
    bool closing;        /* close has begun: a peer that goes is no loss */
    bool stop;           /* close: the I/O thread ends */
    bool ended;          /* the I/O thread will not touch any buffer again */
};

struct mesh_wire {
    int fd;               /* -1: none */
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* NULL: bytes go by the socket */
};
/* Makes a mesh of connected sockets (@wire[n], none at rank) and starts its thread. Takes them over,
 * and the context of their TLS (NULL allowed) and the segment of their shared memory (head NULL: none),
 * in every case. */
enum hsp_status hsp_mesh_start(const struct hsp_mesh_params *p, const struct mesh_wire *wire,
                               struct hsp_tls_ctx *ctx, struct seg *seg, struct hsp_comm **ret,
                               struct hsp_err *err);
/* Closes and frees all of a mesh without a thread. */
void hsp_mesh_free(struct hsp_mesh *m);
extern const struct hsp_comm_ops hsp_mesh_ops;
void *hsp_mesh_io_main(void *mesh);
/* Waits for the links, the first @spin_ns awake, and serves those that are ready. By the I/O thread, or
 * the user thread while it leads. False: there is an end to come to. */
bool hsp_mesh_turn(struct hsp_mesh *m, uint64_t spin_ns);
/* Between two looks of who waits awake. With a processor for each rank it keeps its own: others would have it
 * for a whole time slice (Linux 6.18: a yield gives up the rest of its share, too). */
void hsp_mesh_look_away(const struct hsp_mesh *m);
/* Kills the mesh; locked. The first reason stays. */
void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER]);
/* The rest of this section is locked. Wakes the user thread, wherever it waits. */
void hsp_mesh_notify(struct hsp_mesh *m);
/* Whether a header continues the stream of that peer. */
bool hsp_mesh_header_ok(const struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);
/* Acts on a header. False: stop reading this link. */
bool hsp_mesh_on_header(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);
/* Finds room for the message whose header was read. False: dead, or held. */
bool hsp_mesh_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
void hsp_mesh_finish(struct hsp_mesh *m, struct mesh_link *l); /* a message is whole */
/* Kills the mesh as another rank did, for the same reason. */
void hsp_mesh_told(struct hsp_mesh *m, uint32_t by, bool canceled, uint32_t lost);
void hsp_mesh_out_done(struct hsp_mesh *m,
                       struct mesh_link *l); /* the first message to send is out */
void hsp_mesh_drop_out(struct hsp_mesh *m, struct mesh_link *l);
/* Sets what the I/O thread waits for on a link, if it changed; locked. */
void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out);
/* Writes what the kernel takes of a message, about @most bytes. 1: it is through; 0: later; -errno.
 */
int hsp_mesh_write_some(struct mesh_link *l, struct mesh_out *o, size_t most);
void hsp_mesh_wake(int fd);

/* ---- links by shared memory: mesh_shm.c. Locked, but for new and free. ---- */

/* Our half of a link to @peer: its memory is there then. HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_shm_new(const struct seg *own, uint32_t peer, struct mesh_shm **ret,
                            struct hsp_err *err);
/* The other half: the peer's segment is @fd (stays the caller's). HSP_EPROTO, HSP_EIO. */
enum hsp_status hsp_shm_attach(struct mesh_shm *s, int fd, uint32_t n, uint32_t me,
                               struct hsp_err *err);
struct mesh_shm *hsp_shm_free(struct mesh_shm *s); /* NULL allowed; returns NULL */
/* Writes what fits of a message; true: it is out. */
bool hsp_shm_put(struct hsp_mesh *m, uint32_t peer, struct mesh_out *o);
/* The user thread comes, and goes. */
void hsp_shm_enter(struct hsp_mesh *m);
void hsp_shm_leave(struct hsp_mesh *m);
/* Waits until something happens; @awaited: the peer whose message is waited for, UINT32_MAX: none. */
void hsp_shm_await(struct hsp_mesh *m, uint32_t awaited);
void hsp_shm_notify(struct hsp_mesh *m);    /* wakes our user thread */
void hsp_shm_abort_all(struct hsp_mesh *m); /* sets the abort word of all peers */
void hsp_shm_rung(struct hsp_mesh *m);      /* the I/O thread: a peer needs us */
void hsp_shm_said_bye(struct hsp_mesh *m, uint32_t peer);
bool hsp_shm_has_said_bye(const struct mesh_shm *s);
/* Lending: begin, await until lent is not NULL (or the mesh is dead, or the link closed), end. */
bool hsp_shm_lends(const struct hsp_mesh *m, uint32_t peer, size_t bytes);
void hsp_shm_lend_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
const void *hsp_shm_lent(struct hsp_mesh *m, uint32_t peer);
void hsp_shm_lend_end(struct hsp_mesh *m, uint32_t peer);

#endif
