/* Owns one communicator of NCCL and its thread.
 *
 *   MAKING --made--> MADE --connect, greeted--> READY               READY, BROKEN --close--> gone
 *   MAKING, MADE, READY --abort, an error--> BROKEN
 *
 * Role:      made, used and closed by nccl_comm.c and nccl_pool.c.
 * Threads:   the link's own thread makes the communicator, looks for errors of work under way, and
 *            ends it; no other thread waits in the library. Operations are given by one thread at a
 *            time, between begin and end. abort: any thread.
 * Calls:     no call of the library waits (its config says so), but a call that goes wrong may. So
 *            the thread that gives operations holds `call`, and a link that is aborted waits for it
 *            no longer than its patience. Then the communicator is aborted from under the call, for
 *            which NCCL's abort is made. Where the link's own thread does not come back, the thread
 *            that waits for its end aborts the communicator.
 * Connection: NCCL connects two members when their first message is given, and all members at the
 *            first collective for which it chooses an algorithm (ring, tree, switch). Until all
 *            have given theirs the call is in progress, and connecting takes memory of the GPU.
 *            Later a send must not wait for its receiver, and a step not for memory. So the
 *            members *greet* each other before a link is READY, when hsp_link_connect is called:
 *            the members of a pair by a byte, others by collectives of every size class, in the
 *            link's thread and on HSP_DEVQ_GREET.
 * Greeting:  one link of an executor at a time, and all members of all links in one order
 *            (nccl_make.c). The greetings of all executors wait for each other in that order only,
 *            so some greeting can always go on. Links that are kept do not greet again; a link that
 *            is split off has no connection of its parent's.
 * Invariants: (I1) after READY was left nothing is given to the communicator.
 *             (I2) hsp_link_close returns when the device has no more work of the link: an aborted
 *                  communicator's kernels have ended when the library's abort has returned, and a
 *                  finalized one has none. A destroy that does not return keeps only memory.
 *             (I3) a link is READY when all its members have greeted and the device has done the
 *                  work of this member's greeting: nothing is under way.
 *             (I4) the greetings of an executor read and write one piece of memory, in the order
 *                  of their queue. */
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
    struct hsp_link *child; /* gets the new communicator; NULL: NCCL_NO_COLOR */
};

enum hsp_nccl_link_state { HSP_LINK_MAKING, HSP_LINK_MADE, HSP_LINK_READY, HSP_LINK_BROKEN };

/* Called by the link's thread when the link is broken, before the device's work for it is
 * aborted. */
struct hsp_link_watcher {
    void (*on_broken)(void *ctx, const struct hsp_err *why); /* NULL: none */
    void *ctx;
};

struct hsp_link;
/* State that all links of an executor share; constant but for patience_ms. */
struct hsp_link_env {
    const struct hsp_nccl_lib *lib;
    struct hsp_backend *backend;
    void *greeting; /* device memory of greeting_bytes, for the data of greetings */
    /* bytes of the largest collective of a greeting, at least 256, and 4 for each member */
    size_t greeting_bytes;
    /* for a call that does not return, and for peers that do not come to the end of one */
    atomic_uint patience_ms;
};

/* The parameters of a new link. */
struct hsp_link_spec {
    const char *name;        /* for messages: "ranks 0,2,3" */
    uint64_t key, nonce;     /* nccl_need.h */
    const uint64_t *process; /* members, @n; copied */
    uint32_t n, me;
    bool messages;     /* a pair: member 0 sends to member 1; else collectives */
    struct nccl_id id; /* of a new communicator */
    bool is_split;     /* a turn of another link makes the communicator */
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
    struct nccl_comm *made;   /* the library writes the handle here in the call that makes it */
    struct nccl_comm *handle; /* read under `call` or by the link's thread; set under `lock`, too */

    atomic_bool aborting;
    atomic_bool released; /* a thread destroys or aborts the communicator */
    pthread_mutex_t lock; /* the following */
    pthread_cond_t cond;  /* its clock is the monotonic one */
    enum hsp_nccl_link_state state;
    struct hsp_err err; /* BROKEN: why */
    bool connecting;    /* connect was called */
    bool closing;
    bool leaving;               /* its thread ends it */
    struct hsp_link_crew *crew; /* the crew with which the link ends; NULL: alone */
    struct hsp_err crew_why;
    bool finalized; /* no work is or will be under way; the link's thread destroys it */
    bool ended;     /* the communicator is gone */
    bool abandoned; /* closed before that: its thread frees it */
    bool giving;    /* between begin and end */
    const struct hsp_link_turn *turn; /* the turns left to the link's thread, n_turns; borrowed */
    uint32_t n_turns;
    /* the library writes the communicator of the turn under way here; for the link's thread */
    struct nccl_comm *offshoot;
    struct nccl_comm *gift; /* if is_split: the communicator, from the parent's thread */
    const void *owner;      /* the user that gave the last operations */
    uint64_t ops;           /* operations given */
    enum hsp_devq q[2];
    uint64_t ticket[2]; /* of the last operations, one for each queue they were given to; 0: none */
    pthread_mutex_t telling; /* held while watchers are told; the following */
    struct hsp_link_watcher watcher[HSP_LINK_WATCHERS];
    uint32_t users;             /* of the pool, under its lock */
    struct hsp_link *crew_next; /* of the crew, under its lock; the following */
    bool taken, aborted;        /* the abort is due, or done */
    struct hsp_link *mate;      /* the next link that is aborted with this one */
};

/* Starts making a link; HSP_ENOMEM. */
enum hsp_status hsp_link_new(const struct hsp_link_env *env, const struct hsp_link_spec *s,
                             struct hsp_link **ret, struct hsp_err *err);
/* Returns HSP_OK if the link is READY, HSP_AGAIN if it is not READY yet, else the reason why it is
 * broken. */
enum hsp_status hsp_link_state(struct hsp_link *l, struct hsp_err *err);
/* Does the same for the states MADE and READY. */
enum hsp_status hsp_link_made(struct hsp_link *l, struct hsp_err *err);
/* Lets the link greet its members, in its own thread, as soon as it is MADE. */
void hsp_link_connect(struct hsp_link *l);
/* Makes @ctx a watcher: @on_broken is called when the link breaks. @on_broken NULL: @ctx is no
 * watcher any more, and is not called after this call. */
void hsp_link_watch(struct hsp_link *l, void (*on_broken)(void *ctx, const struct hsp_err *why),
                    void *ctx);

/* Begins operations of @owner on the link: *ret_handle is the communicator, valid until
 * hsp_link_end. Returns an error if the link is broken, with the reason; then hsp_link_end must not
 * be called. */
enum hsp_status hsp_link_begin(struct hsp_link *l, const void *owner, struct nccl_comm **ret_handle,
                               struct hsp_err *err);
struct hsp_link_given {
    enum hsp_devq q;  /* to which queue */
    uint32_t n_ops;   /* counted alike by all members */
    const char *what; /* "all-reduce" */
};
/* Takes the library's answer @r to the operations issued since hsp_link_begin, and waits until they
 * are under way on the device. After an error the link is broken, and will be ended. It must be
 * called also if an operation failed; @r is then the error. */
enum hsp_status hsp_link_end(struct hsp_link *l, const struct hsp_link_given *g, enum nccl_result r,
                             struct hsp_err *err);

/* Lets the link's thread split its communicator @n times. The link must be READY and idle, and must
 * have no other user meanwhile. @turn is borrowed until hsp_link_turns says 0. If a turn fails the
 * link is broken, and so are the children without a communicator. */
void hsp_link_split(struct hsp_link *l, const struct hsp_link_turn *turn, uint32_t n);
uint32_t hsp_link_turns(struct hsp_link *l);    /* turns that are left */
uint64_t hsp_link_ops(struct hsp_link *l);      /* operations given so far */
const void *hsp_link_owner(struct hsp_link *l); /* the user that gave the last of them */
/* Returns true if the link is idle: it is READY, no operation is being issued, and the device has
 * completed all operations. */
bool hsp_link_quiet(struct hsp_link *l);
/* Begins to close a link, without waiting. So the members may close several links in different
 * orders, and no link waits for another. Only close may follow. */
void hsp_link_part(struct hsp_link *l);
/* Frees a link: destroys its communicator if the link is idle, else aborts it. Waits for the
 * library, with a time limit in the case of a destroy. NULL is fine; returns NULL. */
struct hsp_link *hsp_link_close(struct hsp_link *l);

#endif
