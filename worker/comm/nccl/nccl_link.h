/* One communicator of NCCL and its thread.
 *
 *   MAKING --made--> MADE --connect, greeted--> READY               READY, BROKEN --close--> gone
 *   MAKING, MADE, READY --abort, an error--> BROKEN
 *
 * Role:      made, used and closed by nccl_comm.c and nccl_pool.c.
 * Threads:   the link's own thread makes the communicator, looks for errors of what is under way,
 *            and ends it; nobody else waits in the library. Operations are given by one thread at a
 *            time, between begin and end. abort: any thread.
 * Calls:     none of the library waits (its config says so), but one that goes wrong may. So the
 *            thread that gives operations holds `call`, and a link that is aborted waits for it no
 *            longer than its patience; then the communicator is aborted from under the call, for
 *            which NCCL's abort is made. Where the link's own thread does not come back, the thread
 *            that waits for its end aborts it.
 * Connection: NCCL connects two members when their first message is given, and all members at the
 *            first collective for which it chooses an algorithm (ring, tree, switch); until all
 *            have given theirs the call is in progress, and it takes memory of the GPU. Later a
 *            send must not wait for its receiver, and a step not for memory. So the members *greet*
 *            each other before a link is READY, when they are told to: those of a pair by a byte,
 *            others by collectives of every size class, in the link's thread and on HSP_DEVQ_GREET.
 * Greeting:  one link of an executor at a time, and all members of all links in one order
 *            (nccl_make.c): the greetings of all executors wait for each other in that order only,
 *            so one of them can always go on. Links that are kept are not greeted again; a
 *            link that is split off has no connection of its parent's.
 * Invariants: (I1) after READY was left nothing is given to the communicator.
 *             (I2) hsp_link_close returns when the device does nothing for it any more: an aborted
 *                  communicator's kernels have ended when the library's abort has returned, and a
 *                  finalized one has none. A destroy that does not return keeps only memory.
 *             (I3) a link is READY when all its members have greeted and the device has done what
 *                  this one gave for that: nothing is under way.
 *             (I4) the greetings of an executor read and write one piece of memory, in the order
 *                  of their queue.
 */
#ifndef HSP_NCCL_LINK_H
#define HSP_NCCL_LINK_H
#include <pthread.h>
#include <stdatomic.h>

#include "worker/backend/backend.h"
#include "worker/comm/nccl/nccl_lib.h"

#define HSP_LINK_WATCHERS 4 /* epochs an executor has at a time are three: left, running, next */

/* One call of ncclCommSplit, in which all members of the link take part. */
struct hsp_link_turn {
    int color, place; /* NCCL_NO_COLOR: this member only takes part */
    int max_ctas;
    struct hsp_link *child; /* gets what comes of it; NULL: NCCL_NO_COLOR */
};

enum hsp_nccl_link_state { HSP_LINK_MAKING, HSP_LINK_MADE, HSP_LINK_READY, HSP_LINK_BROKEN };

/* Called by the link's thread when it is broken, before what the device does for it is ended. */
struct hsp_link_watcher {
    void (*on_broken)(void *ctx, const struct hsp_err *why); /* NULL: none */
    void *ctx;
};

struct hsp_link;
/* What all links of an executor share; constant but for patience_ms. */
struct hsp_link_env {
    const struct hsp_nccl_lib *lib;
    struct hsp_backend *backend;
    void *greeting; /* device memory of greeting_bytes, for what members greet each other with */
    /* of the largest collective among that, at least 256, and 4 for each member */
    size_t greeting_bytes;
    /* with a call that does not return, and with peers that do not come to the end of one */
    atomic_uint patience_ms;
};

/* What one is made of. */
struct hsp_link_spec {
    const char *name;        /* for messages: "ranks 0,2,3" */
    uint64_t key, nonce;     /* nccl_need.h */
    const uint64_t *process; /* members, @n; copied */
    uint32_t n, me;
    bool messages;     /* a pair: member 0 sends to member 1; else collectives */
    struct nccl_id id; /* of a new one */
    bool is_split;     /* it comes of a turn of another link */
    int max_ctas;
};

struct hsp_link_crew; /* nccl_end.c */

struct hsp_link {
    struct hsp_link *next; /* of the pool */
    /* constant */
    const struct hsp_link_env *env;
    char name[96];
    uint64_t key, nonce;
    uint64_t *process; /* owned */
    uint32_t n, me;
    struct nccl_id id;
    bool messages;
    bool is_split;
    int max_ctas;
    pthread_t thread;

    pthread_mutex_t call;     /* held while the library is called for this communicator */
    struct nccl_comm *made;   /* where the library puts its handle; of the call that makes it */
    struct nccl_comm *handle; /* by who holds it, and the link's thread; set under `lock`, too */

    atomic_bool aborting;
    atomic_bool released; /* somebody destroys or aborts the communicator */
    pthread_mutex_t lock; /* the following */
    pthread_cond_t cond;  /* its clock is the monotonic one */
    enum hsp_nccl_link_state state;
    struct hsp_err err; /* BROKEN: why */
    bool connecting;    /* connect was called */
    bool closing;
    bool leaving;               /* its thread ends it */
    struct hsp_link_crew *crew; /* with which it ends; NULL: alone */
    struct hsp_err crew_why;
    bool finalized; /* nothing is under way, nor will be; its thread destroys it */
    bool ended;     /* the communicator is gone */
    bool abandoned; /* closed before that: its thread frees it */
    bool giving;    /* between begin and end */
    const struct hsp_link_turn *turn; /* its thread is to take, n_turns; borrowed */
    uint32_t n_turns;
    /* where the library puts what comes of the turn under way; its thread's */
    struct nccl_comm *offshoot;
    struct nccl_comm *gift; /* of is_split: the communicator, from the other link's thread */
    const void *owner;      /* gave the last operations */
    uint64_t ops;           /* given */
    enum hsp_devq q[2];
    uint64_t ticket[2]; /* of the last operations, one for each queue they were given to; 0: none */
    pthread_mutex_t telling; /* held while watchers are told; the following */
    struct hsp_link_watcher watcher[HSP_LINK_WATCHERS];
    uint32_t users;             /* of the pool, under its lock */
    struct hsp_link *crew_next; /* of the crew, under its lock; the following */
    bool taken, aborted;        /* the abort is due, or done */
    struct hsp_link *mate;      /* that is aborted with it */
};

/* Starts making it; HSP_ENOMEM. */
enum hsp_status hsp_link_new(const struct hsp_link_env *env, const struct hsp_link_spec *s,
                             struct hsp_link **ret, struct hsp_err *err);
/* Whether it is READY, or why not: HSP_AGAIN while it is under way. */
enum hsp_status hsp_link_state(struct hsp_link *l, struct hsp_err *err);
/* The same of MADE or READY. */
enum hsp_status hsp_link_made(struct hsp_link *l, struct hsp_err *err);
/* Lets the link greet its members, in its own thread, as soon as it is MADE. */
void hsp_link_connect(struct hsp_link *l);
/* @ctx watches from now on, and is told by @on_broken; NULL: @ctx does not watch any more, and
 * after this is not told. */
void hsp_link_watch(struct hsp_link *l, void (*on_broken)(void *ctx, const struct hsp_err *why),
                    void *ctx);

/* @owner begins to give operations: *ret_handle is the communicator, until end. Why it is broken:
 * then there is nothing to end. */
enum hsp_status hsp_link_begin(struct hsp_link *l, const void *owner, struct nccl_comm **ret_handle,
                               struct hsp_err *err);
struct hsp_link_given {
    enum hsp_devq q;  /* to which queue */
    uint32_t n_ops;   /* counted alike by all members */
    const char *what; /* "all-reduce" */
};
/* What the library answered to what was given: waits until it is under way on the device. Errors:
 * the link is broken, and will be ended. Also after an error it must be called; @r is then that. */
enum hsp_status hsp_link_end(struct hsp_link *l, const struct hsp_link_given *g, enum nccl_result r,
                             struct hsp_err *err);

/* Its thread splits its communicator @n times, which is READY, quiet and nobody else's meanwhile.
 * @turn is borrowed until hsp_link_turns says 0. If one fails the link is broken, and so are the
 * children without a communicator. */
void hsp_link_split(struct hsp_link *l, const struct hsp_link_turn *turn, uint32_t n);
uint32_t hsp_link_turns(struct hsp_link *l);    /* that are left */
uint64_t hsp_link_ops(struct hsp_link *l);      /* given so far */
const void *hsp_link_owner(struct hsp_link *l); /* who gave the last of them */
/* Whether it can serve again: READY, nothing is being given, and the device has done all that
 * was. */
bool hsp_link_quiet(struct hsp_link *l);
/* Begins to close it, without waiting: several that are closed by all members in another order do
 * not wait for each other. Only close may follow. */
void hsp_link_part(struct hsp_link *l);
/* Frees it: in order if it is quiet, else aborted; waits for the library, for a destroy not for
 * ever. NULL is fine; returns NULL. */
struct hsp_link *hsp_link_close(struct hsp_link *l);

#endif
