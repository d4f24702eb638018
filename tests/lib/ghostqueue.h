/* Declares the ghost's state, and its queues, each with a thread. Unless said otherwise the
 * caller holds the lock. */
#ifndef HSP_GHOSTQUEUE_H
#define HSP_GHOSTQUEUE_H
#include <pthread.h>

#include "tests/lib/ghostint.h"

#define HSP_GHOST_THREADS 16

struct hsp_ghost_job {
    struct hsp_ghost_job *next;
    struct hsp_ghost_call c; /* addresses of the real memory */
    uint64_t number;
    uint32_t delay_us;
    uint64_t hash; /* of a copy's source on the host */
    bool hashed, fails;
    bool refused; /* a breach: not to be done */
    struct hsp_ghost_work foreign;
};

/* The known calls of a replay key. */
struct hsp_ghost_record {
    struct hsp_ghost_record *next;
    struct hsp_digest key;
    struct hsp_ghost_call *call;
    size_t n, cap;
};

struct hsp_ghost;
struct hsp_ghost_queue {
    struct hsp_ghost *g;
    enum hsp_devq q;
    bool open; /* used once: */
    pthread_t thread;
    pthread_cond_t todo; /* its thread waits for work */
    struct hsp_backend *cpu;
    struct hsp_ghost_job *first, **last;
    struct hsp_ghost_clock known;
    uint64_t given; /* work */
    uint64_t tickets, reached;
    struct hsp_ghost_clock *mark; /* the meaning of each ticket */
    size_t mark_cap;
    int64_t when_ns[HSP_MAX_MARKS];
    struct hsp_ghost_record *record; /* between begin and end */
    bool comparing;
    size_t at; /* calls compared */
};

struct hsp_ghost {
    struct hsp_backend base;
    struct hsp_ghost_opts o;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* threads that wait for work to be done */
    uint32_t n_waiting;
    struct hsp_ghost_queue queue[HSP_N_DEVQ];
    struct hsp_ghost_clock done;         /* in truth */
    struct hsp_ghost_area *areas, *kept; /* released, but not freed before trim */
    bool peers;                          /* another library may be at work */
    struct hsp_ghost_record *records;
    struct {
        uint64_t id, seen; /* seen: when last, in calls of hsp_ghost_caller() */
        struct hsp_ghost_clock known;
    } thread[HSP_GHOST_THREADS];
    size_t n_threads;
    uint64_t n_seen;
    struct hsp_ghost_tally tally;
    uint64_t drawn, work;
    bool fail_copy; /* the next of HSP_DEVQ_STATE */
    struct hsp_err failure;
    bool quit;
};

struct hsp_ghost *hsp_ghost_of(struct hsp_backend *b); /* without the lock */
uint64_t hsp_ghost_draw(struct hsp_ghost *g);          /* a random number */
void hsp_ghost_wait_done(struct hsp_ghost *g);         /* waits for something to be done */
void hsp_ghost_learn(struct hsp_ghost_clock *to, const struct hsp_ghost_clock *from);
struct hsp_ghost_clock *hsp_ghost_caller(struct hsp_ghost *g); /* the calling thread's knowledge */

/* The device fails with @why, or with "ghost: @words", unless it has failed already. */
void hsp_ghost_fail(struct hsp_ghost *g, const struct hsp_err *why);
enum hsp_status hsp_ghost_breach(struct hsp_ghost *g, const char *words, struct hsp_err *err);
/* The failure; HSP_OK: none. */
enum hsp_status hsp_ghost_failed(const struct hsp_ghost *g, struct hsp_err *err);

/* Judges @c and gives it to the thread of the queue. */
enum hsp_status hsp_ghost_give(struct hsp_ghost *g, enum hsp_devq at,
                               const struct hsp_ghost_call *c, struct hsp_err *err);
void hsp_ghost_append(struct hsp_ghost_queue *q, struct hsp_ghost_job *j); /* takes @j; unjudged */

#endif
