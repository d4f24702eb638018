/* Shares the inside of the fake NCCL: fakenccl.c has its calls, fakencclask.c the orders and
 * questions of a test, fakencclwork.c the work of the calls. */
#ifndef HSP_FAKENCCLINT_H
#define HSP_FAKENCCLINT_H
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "tests/lib/fakenccl/fakenccl.h"
#include "worker/comm/nccl/nccl_abi.h"

enum op_kind {
    OP_ALL_REDUCE,
    OP_REDUCE,
    OP_REDUCE_SCATTER,
    OP_ALL_GATHER,
    OP_BROADCAST,
    OP_SEND,
    OP_RECV
};

struct op {
    struct op *next; /* of its kernel */
    enum op_kind kind;
    const void *in;
    void *out;
    size_t n;
    enum nccl_type type;
    enum nccl_op op;
    int root; /* peer of a send or a receive */
    struct meet *meet;
};

/* One operation, where its members come together. */
struct meet {
    struct meet *next;
    uint64_t number; /* of the collective, or of the message between the two */
    int from, to;    /* of a message; -1: a collective */
    struct op **of;  /* by member; NULL: has not come */
    int n_here, n_awaited, n_left;
    bool done;
};

/* The operations of one group of calls for one communicator: begins when all of them are met. */
struct kernel {
    struct kernel *next;
    struct nccl_comm *c;
    struct op *ops, **last;
    bool here; /* has come to the head of its stream */
    void *stream;
    uint64_t number; /* of its communicator's */
};

/* A call of ncclCommSplit, where the members come together. */
struct parting {
    struct parting *next;
    uint64_t number;
    int n_here;
    bool dead; /* a member was aborted before all had come */
    int *color, *key;
    struct nccl_comm ***ret; /* by member: where it wants the new one */
};

struct clique {
    struct clique *next;
    struct parting *partings;
    struct nccl_id id;
    int n, n_joined, n_final, n_destroyed;
    struct nccl_comm **member;
    struct meet *meets;
};

struct nccl_comm {
    struct nccl_comm *next; /* of all there ever were */
    struct clique *q;
    int me, process;
    bool gone, aborted, final, in_call;
    uint64_t ended;           /* as which of all, from 1 */
    int polls;                /* answers "in progress" so often still */
    uint64_t n_given, n_done; /* kernels */
    bool waits;               /* in progress until they are done */
    bool *asked;              /* 2 for each member: sent to, received from, once at least */
    bool collects;            /* was given a collective */
    enum nccl_result error;
    struct parting *parting; /* being split: until all members have called */
    uint64_t n_split, n_collective, *n_sent, *n_taken; /* by peer */
    struct kernel *first, **last;
    pthread_t thread;
    bool has_thread;
};

#define FAKE_STREAMS 256 /* there ever were */
struct stream {
    const void *id;
    uint64_t given, done;
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct nccl_comm *comms;
    struct clique *cliques;
    atomic_uint_least64_t n_ended; /* communicators, ever */
    unsigned n_inside;             /* threads, of a call */
    bool resets;                   /* nobody stays in a call */
    uint64_t drawn, seed;
    int version;
    void (*submit)(void *stream,
                   const struct hsp_fakenccl_work *w); /* NULL: no streams of a test */
    void (*touch)(const void *p, size_t bytes, bool write);
    void *(*announce)(void *stream, const void *p, size_t bytes, bool write);
    struct stream stream[FAKE_STREAMS];
    unsigned n_streams;
};
/* Of a program that chooses no version. */
#define FAKE_NEWEST 22809

extern struct fake fake;

#define FAKE_NAMES   32
#define FAKE_MISUSES 32
struct fake_order { /* a fault to come */
    const char *name;
    unsigned nth;
    int result;
};
struct fake_test {
    struct fake_order fail, hang;
    unsigned die[HSP_FAKENCCL_PROCESSES], n_calls_of[HSP_FAKENCCL_PROCESSES];
    bool dead[HSP_FAKENCCL_PROCESSES];
    struct {
        const char *name;
        unsigned n;
    } call[FAKE_NAMES];
    unsigned n_names, n_misuses, n_ids, n_hung, n_grouped;
    bool lets_go; /* nobody waits in the end of a communicator */
    char misuse[FAKE_MISUSES][160];
};
extern struct fake_test fake_test;
extern _Thread_local int fake_process; /* of the calling thread */

void fake_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
unsigned fake_draw(unsigned below);

/* fakencclsplit.c; the lock is held. A member of a clique joins it. */
struct nccl_comm *fake_join(struct clique *q, int me, int process);
struct clique *fake_clique(const struct nccl_id *id, int n);
enum nccl_result fake_split(struct nccl_comm *c, int color, int key, struct nccl_comm **ret);
bool fake_splitting(const struct nccl_comm *c);
void fake_partings_leave(
    struct nccl_comm *c); /* aborted: nobody waits for it any more, nor it for them */
void fake_partings_free(struct clique *q);

/* A communicator has ended; its memory stays, so that late calls are seen. The lock is held. */
void fake_end(struct nccl_comm *c);

/* fakencclwork.c; the lock is held. */
void fake_give(struct kernel *k, void *stream);
bool fake_connected(const struct nccl_comm *c);
bool fake_ready(struct kernel *k);
void fake_run(struct kernel *k);
void fake_mark(struct nccl_comm *c);     /* its kernels are told to end */
void fake_withdraw(struct nccl_comm *c); /* aborted: its work ends, and never meets anybody */
void fake_meets_free(struct clique *q);
struct stream *fake_stream(const void *id);

#endif
