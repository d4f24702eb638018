/* Declares the mockdev's state, and its queues, each with a thread. Unless said otherwise the
 * caller holds the lock. */
#ifndef HSP_MOCKDEVQUEUE_H
#define HSP_MOCKDEVQUEUE_H
#include <pthread.h>

#include "tests/lib/mockdevint.h"

#define HSP_MOCKDEV_THREADS 16

struct hsp_mockdev_job {
    struct hsp_mockdev_job *next;
    struct hsp_mockdev_call c; /* addresses of the real memory */
    uint64_t number;
    uint32_t delay_us;
    uint64_t hash; /* of a copy's source on the host */
    bool hashed, fails;
    bool refused; /* a breach: not to be done */
    struct hsp_mockdev_work foreign;
};

/* The known calls of a replay key. */
struct hsp_mockdev_record {
    struct hsp_mockdev_record *next;
    struct hsp_digest key;
    struct hsp_mockdev_call *call;
    size_t n, cap;
};

struct hsp_mockdev;
struct hsp_mockdev_queue {
    struct hsp_mockdev *g;
    enum hsp_devq q;
    bool open; /* used once: */
    pthread_t thread;
    pthread_cond_t todo; /* its thread waits for work */
    struct hsp_backend *cpu;
    struct hsp_mockdev_job *first, **last;
    struct hsp_mockdev_clock known;
    uint64_t given; /* work */
    uint64_t tickets, reached;
    struct hsp_mockdev_clock *mark; /* the meaning of each ticket */
    size_t mark_cap;
    int64_t when_ns[HSP_MAX_MARKS];
    struct hsp_mockdev_record *record; /* between begin and end */
    bool comparing;
    size_t at; /* calls compared */
};

struct hsp_mockdev {
    struct hsp_backend base;
    struct hsp_mockdev_opts o;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* threads that wait for work to be done */
    uint32_t n_waiting;
    struct hsp_mockdev_queue queue[HSP_N_DEVQ];
    struct hsp_mockdev_clock done;         /* in truth */
    struct hsp_mockdev_area *areas, *kept; /* released, but not freed before trim */
    bool peers;                            /* another library may be at work */
    struct hsp_mockdev_record *records;
    struct {
        uint64_t id, seen; /* seen: when last, in calls of hsp_mockdev_caller() */
        struct hsp_mockdev_clock known;
    } thread[HSP_MOCKDEV_THREADS];
    size_t n_threads;
    uint64_t n_seen;
    struct hsp_mockdev_tally tally;
    uint64_t drawn, work;
    bool fail_copy; /* the next of HSP_DEVQ_STATE */
    struct hsp_err failure;
    bool quit;
};

struct hsp_mockdev *hsp_mockdev_of(struct hsp_backend *b); /* without the lock */
uint64_t hsp_mockdev_draw(struct hsp_mockdev *g);          /* a random number */
void hsp_mockdev_wait_done(struct hsp_mockdev *g);         /* waits for something to be done */
void hsp_mockdev_learn(struct hsp_mockdev_clock *to, const struct hsp_mockdev_clock *from);
/* the calling thread's knowledge */
struct hsp_mockdev_clock *hsp_mockdev_caller(struct hsp_mockdev *g);

/* The device fails with @why, or with "mockdev: @words", unless it has failed already. */
void hsp_mockdev_fail(struct hsp_mockdev *g, const struct hsp_err *why);
enum hsp_status hsp_mockdev_breach(struct hsp_mockdev *g, const char *words, struct hsp_err *err);
/* The failure; HSP_OK: none. */
enum hsp_status hsp_mockdev_failed(const struct hsp_mockdev *g, struct hsp_err *err);

/* Judges @c and gives it to the thread of the queue. */
enum hsp_status hsp_mockdev_give(struct hsp_mockdev *g, enum hsp_devq at,
                                 const struct hsp_mockdev_call *c, struct hsp_err *err);
/* takes @j; unjudged */
void hsp_mockdev_append(struct hsp_mockdev_queue *q, struct hsp_mockdev_job *j);

#endif
