/* One thread at a time reads; `lock` is held for a few instructions only, never
 * while names are looked up, files are read or mappings taken away. */
#include "worker/data/data_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/data/documents.h"
#include "worker/data/load.h"

#define NS_PER_S  INT64_C(1000000000)
#define SETTLE_NS (3 * NS_PER_S)  /* above the grain of any file system's times: 2 s on FAT */
#define LOOK_NS   (NS_PER_S / 20) /* who waits asks so often whether to go on */

struct entry {
    struct hsp_held_data held; /* first: what is given out */
    enum hsp_data_format format;
    uint32_t vocab;  /* all tokens are below it */
    uint64_t number; /* of its reading */
    int64_t open_ns; /* just before it was opened */
    uint32_t users;  /* under the lock; the cache is one of them while it is `last` */
};

struct hsp_data_cache {
    int64_t (*wall_ns)(void);
    atomic_bool give_up; /* said to the thread that reads: nobody wants it any more */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t done;  /* a reading has ended */
    struct entry *last;   /* NULL: none */
    bool reading;         /* the thread is at it */
    bool has_thread;      /* to be joined, also when it has ended */
    pthread_t thread;
    uint32_t n_waiting; /* for what it reads */
    uint64_t number;    /* of the newest reading; these belong to it: */
    char *path;         /* owned, not changed while it reads */
    enum hsp_data_format format;
    uint32_t vocab;
    struct hsp_data_cut cut;
    enum hsp_status status; /* how it ended */
    struct hsp_err why;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail with these clocks */
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t system_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

struct hsp_data_cache *hsp_data_cache_new(int64_t (*wall_ns)(void))
{
    struct hsp_data_cache *c = calloc(1, sizeof(*c));
    if (c != NULL) {
        pthread_condattr_t attr;
        c->wall_ns = wall_ns != NULL ? wall_ns : system_ns;
        (void)pthread_mutex_init(&c->lock, NULL); /* none of these can fail on Linux */
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&c->done, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    return c;
}

/* Without the lock. NULL allowed. */
static void let_go(struct hsp_data_cache *c, struct entry *x)
{
    if (x == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&c->lock);
    bool unused = --x->users == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (unused) {
        hsp_dataset_close(&x->held.set);
        free(x);
    }
}

void hsp_data_cache_drop(struct hsp_data_cache *c)
{
    (void)pthread_mutex_lock(&c->lock);
    struct entry *x = c->last;
    c->last = NULL;
    if (c->n_waiting == 0) {
        c->give_up = true;
    }
    (void)pthread_mutex_unlock(&c->lock);
    let_go(c, x);
}

struct hsp_data_cache *hsp_data_cache_free(struct hsp_data_cache *c)
{
    if (c != NULL) {
        c->give_up = true;
        if (c->has_thread) {
            (void)pthread_join(c->thread, NULL); /* fails only for threads that are not ours */
        }
        let_go(c, c->last);
        (void)pthread_cond_destroy(&c->done);
        (void)pthread_mutex_destroy(&c->lock);
        free(c->path);
        free(c);
    }
    return NULL;
}

/* ---- reading, on its thread ---- */

static bool is_given_up(void *ctx)
{
    const struct hsp_data_cache *c = ctx;
    return c->give_up;
}

/* Opens and reads everything. */
static enum hsp_status read_all(struct hsp_data_cache *c, struct entry **ret, struct hsp_err *err)
{
    const struct hsp_data_stop stop = {.asked = is_given_up, .ctx = c};
    struct entry *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return hsp_err_nomem(err, "the data set %s", c->path);
    }
    x->format = c->format;
    x->vocab = c->vocab;
    x->number = c->number;
    x->users = 1;
    x->open_ns = c->wall_ns();
    enum hsp_status st = hsp_dataset_open(c->path, c->format, &x->held.set, err);
    if (st == HSP_OK) {
        st = hsp_dataset_read(&x->held.set, c->vocab, &stop, &x->held.digest, err);
    }
    if (st == HSP_OK) {
        st = hsp_dataset_cut(&x->held.set, &c->cut, &stop, err);
    }
    if (st != HSP_OK) {
        hsp_dataset_close(&x->held.set);
        free(x);
        return st;
    }
    *ret = x;
    return HSP_OK;
}

static void *read_thread(void *arg)
{
    struct hsp_data_cache *c = arg;
    struct entry *fresh = NULL, *old = NULL;
    struct hsp_err why = {0};
    enum hsp_status st = read_all(c, &fresh, &why);
    (void)pthread_mutex_lock(&c->lock);
    if (c->give_up) {
        old = fresh; /* said too late */
    } else if (st == HSP_OK) {
        old = c->last;
        c->last = fresh;
    }
    (void)pthread_mutex_unlock(&c->lock);
    let_go(c, old);
    (void)pthread_mutex_lock(&c->lock);
    c->status = st;
    c->why = why;
    c->reading = false;
    (void)pthread_cond_broadcast(&c->done);
    (void)pthread_mutex_unlock(&c->lock); /* the last we touch: we are joined under it */
    return NULL;
}

/* ---- asking; under the lock ---- */

/* The reading under way is what @w asks for. */
static bool is_read(const struct hsp_data_cache *c, const struct hsp_data_wish *w)
{
    return !c->give_up && c->format == w->format && c->vocab == w->vocab &&
           hsp_data_cut_equal(&c->cut, &w->cut) && strcmp(c->path, w->path) == 0;
}

/* Nobody reads: now we do. HSP_ENOMEM. */
static enum hsp_status begin(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                             struct hsp_err *err)
{
    char *path = strdup(w->path);
    if (c->has_thread) {
        (void)pthread_join(c->thread, NULL); /* it has nothing more to do */
        c->has_thread = false;
    }
    if (path != NULL) {
        free(c->path);
        c->path = path;
        c->format = w->format;
        c->vocab = w->vocab;
        c->cut = w->cut;
        c->give_up = false;
        c->number++;
        c->has_thread = c->reading = pthread_create(&c->thread, NULL, read_thread, c) == 0;
    }
    return c->reading ? HSP_OK : hsp_err_nomem(err, "reading the data set %s", w->path);
}

/* Until nobody reads; *@seen is then the number of the last reading of what @w asks for, if there
 * was one. What nobody waits for gives way. HSP_ECANCELED. */
static enum hsp_status await(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                             uint64_t *seen, struct hsp_err *err)
{
    while (c->reading) {
        bool ours = is_read(c, w), stop = false;
        *seen = ours ? c->number : *seen;
        c->give_up = c->give_up || (!ours && c->n_waiting == 0);
        c->n_waiting += ours;
        if (w->stop != NULL) {
            (void)pthread_mutex_unlock(&c->lock);
            stop = w->stop->asked(w->stop->ctx);
            (void)pthread_mutex_lock(&c->lock);
        }
        if (!stop && c->reading) {
            int64_t until = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
            struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
            (void)pthread_cond_timedwait(&c->done, &c->lock, &t); /* early or late: looked again */
        }
        c->n_waiting -= ours;
        if (stop) {
            return hsp_err_set(err, HSP_ECANCELED, 0, "%s is not waited for any more", w->path);
        }
    }
    return HSP_OK;
}

/* @x is what @w asks for as it is now. A file changed so shortly before it was opened that another
 * change may have got the same time is none. Without the lock: looks at files. */
static bool is_wanted(const struct entry *x, const struct hsp_data_wish *w)
{
    return x->format == w->format && w->vocab >= x->vocab &&
           hsp_data_cut_equal(&x->held.set.cut, &w->cut) &&
           hsp_dataset_changed_ns(&x->held.set) < x->open_ns - SETTLE_NS &&
           hsp_dataset_is(&x->held.set, w->path, w->format);
}

static struct entry *hold_last(struct hsp_data_cache *c)
{
    if (c->last != NULL) {
        c->last->users++;
    }
    return c->last;
}

enum hsp_status hsp_data_cache_get(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                                   const struct hsp_held_data **ret, struct hsp_err *err)
{
    uint64_t begun = 0, seen = 0; /* readings */
    struct entry *x = NULL;
    enum hsp_status st;
    (void)pthread_mutex_lock(&c->lock);
    do {
        st = await(c, w, &seen, err);
        if (st == HSP_OK && seen != 0 && seen == c->number && c->status != HSP_OK) {
            st = c->status;
            if (err != NULL) {
                *err = c->why;
            }
        }
        if (st == HSP_OK) {
            x = hold_last(c);
            (void)pthread_mutex_unlock(&c->lock);
            if (x != NULL && x->number != begun && !is_wanted(x, w)) {
                let_go(c, x);
                x = NULL;
            }
            (void)pthread_mutex_lock(&c->lock);
        }
        if (st == HSP_OK && x == NULL && !c->reading) {
            st = begin(c, w, err);
            begun = seen = c->number;
        }
    } while (st == HSP_OK && x == NULL);
    (void)pthread_mutex_unlock(&c->lock);
    if (st == HSP_OK) {
        *ret = &x->held;
    }
    return st;
}

const struct hsp_held_data *hsp_data_cache_put(struct hsp_data_cache *c,
                                               const struct hsp_held_data *d)
{
    let_go(c, (struct entry *)(uintptr_t)d);
    return NULL;
}
