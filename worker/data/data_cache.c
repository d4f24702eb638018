/* Reads data sets on threads that can be left behind. A reading has a thread of its own, which also
 * looks whether the files are still those that were read last: every call that a file system may
 * never answer is made there. A caller waits for its result and may give up. A reading that nobody
 * wants is told to end, and left behind when it does not: its thread throws away its data at any
 * later end. Only a thread whose reading is over is joined. `lock` is held for a few instructions
 * only, never in such a call. */
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
#define LOOK_NS   (NS_PER_S / 20) /* a waiting caller asks so often whether to go on */
/* A reading that is told to end does so within a MiB, unless its file system does not answer. */
#define PATIENCE_NS (NS_PER_S / 4)

struct entry {
    struct hsp_held_data held; /* first: the part that callers get */
    enum hsp_data_format format;
    uint32_t vocab;  /* all tokens are below it */
    int64_t open_ns; /* just before it was opened */
    uint32_t users;  /* under the lock; the cache is one of them while it is `last` */
};

struct reading {
    struct hsp_data_cache *c;
    char *path; /* owned */
    enum hsp_data_format format;
    uint32_t vocab;
    struct hsp_data_cut cut;
    atomic_bool give_up; /* nobody wants it any more */
    /* under the lock */
    uint32_t users;     /* its thread, the cache, waiting callers */
    uint32_t n_waiting; /* of them */
    int64_t give_up_ns; /* when that was said */
    bool over, left;    /* left: behind */
    enum hsp_status status;
    struct hsp_err why;
    struct entry *found; /* held; HSP_OK */
};

struct hsp_data_cache {
    int64_t (*wall_ns)(void);

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t done;  /* a reading has ended */
    uint64_t users;       /* its owner, readings, and holders of data */
    struct entry *last;   /* NULL: none */
    struct reading *now;  /* under way; NULL: none */
    bool has_thread;      /* of `now`, or of the last one, which is over */
    pthread_t thread;
    uint32_t n_left; /* behind, that have not come back */
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
        c->users = 1;
        (void)pthread_mutex_init(&c->lock, NULL); /* none of these can fail on Linux */
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&c->done, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    return c;
}

/* ---- letting go; without the lock ---- */

static void cache_unref(struct hsp_data_cache *c)
{
    (void)pthread_mutex_lock(&c->lock);
    bool unused = --c->users == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (unused) {
        (void)pthread_cond_destroy(&c->done);
        (void)pthread_mutex_destroy(&c->lock);
        free(c);
    }
}

/* NULL allowed. */
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

/* NULL allowed. */
static void reading_unref(struct reading *r)
{
    if (r == NULL) {
        return;
    }
    struct hsp_data_cache *c = r->c;
    (void)pthread_mutex_lock(&c->lock);
    bool unused = --r->users == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (unused) {
        let_go(c, r->found);
        free(r->path);
        free(r);
        cache_unref(c);
    }
}

/* ---- under the lock ---- */

static void give_up(struct reading *r)
{
    if (!r->give_up) {
        r->give_up = true;
        r->give_up_ns = clock_ns(CLOCK_MONOTONIC);
    }
}

/* The thread does not come back: others need not wait for it. It still has the reading. */
static void leave_behind(struct hsp_data_cache *c)
{
    struct reading *r = c->now;
    r->left = true;
    r->users--;
    c->n_left++;
    c->now = NULL;
    (void)pthread_detach(c->thread); /* fails only for threads that are not ours */
    c->has_thread = false;
}

/* The reading is over, so its thread ends at once. Without the lock meanwhile. */
static void join_last(struct hsp_data_cache *c)
{
    while (c->now == NULL && c->has_thread) {
        pthread_t thread = c->thread;
        c->has_thread = false;
        (void)pthread_mutex_unlock(&c->lock);
        (void)pthread_join(thread, NULL); /* fails only for threads that are not ours */
        (void)pthread_mutex_lock(&c->lock);
    }
}

static void wait_until(struct hsp_data_cache *c, int64_t until)
{
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    (void)pthread_cond_timedwait(&c->done, &c->lock, &t); /* early or late: looked again */
}

static struct entry *hold(struct entry *x)
{
    if (x != NULL) {
        x->users++;
    }
    return x;
}

void hsp_data_cache_drop(struct hsp_data_cache *c)
{
    (void)pthread_mutex_lock(&c->lock);
    struct entry *x = c->last;
    c->last = NULL;
    if (c->now != NULL && c->now->n_waiting == 0) {
        give_up(c->now);
    }
    (void)pthread_mutex_unlock(&c->lock);
    let_go(c, x);
}

struct hsp_data_cache *hsp_data_cache_free(struct hsp_data_cache *c)
{
    if (c != NULL) {
        hsp_data_cache_drop(c);
        int64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
        (void)pthread_mutex_lock(&c->lock);
        while (c->now != NULL && clock_ns(CLOCK_MONOTONIC) < until) {
            wait_until(c, until);
        }
        if (c->now != NULL) {
            leave_behind(c);
        }
        join_last(c);
        (void)pthread_mutex_unlock(&c->lock);
        cache_unref(c);
    }
    return NULL;
}

/* ---- reading, on its thread ---- */

static bool is_given_up(void *ctx)
{
    const struct reading *r = ctx;
    return r->give_up;
}

/* Returns true if @x equals the present files of @r. A file changed so shortly before it was opened
 * that another change may have got the same time is none. */
static bool is_wanted(const struct entry *x, const struct reading *r)
{
    return x->format == r->format && r->vocab >= x->vocab &&
           hsp_data_cut_equal(&x->held.set.cut, &r->cut) &&
           hsp_dataset_changed_ns(&x->held.set) < x->open_ns - SETTLE_NS &&
           hsp_dataset_is(&x->held.set, r->path, r->format);
}

/* Opens and reads everything. */
static enum hsp_status read_all(struct reading *r, struct entry **ret, struct hsp_err *err)
{
    const struct hsp_data_stop stop = {.asked = is_given_up, .ctx = r};
    struct entry *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return hsp_err_nomem(err, "the data set %s", r->path);
    }
    x->format = r->format;
    x->vocab = r->vocab;
    x->users = 1;
    x->open_ns = r->c->wall_ns();
    enum hsp_status st = hsp_dataset_open(r->path, r->format, &x->held.set, err);
    if (st == HSP_OK) {
        st = hsp_dataset_read(&x->held.set, r->vocab, &stop, &x->held.digest, err);
    }
    if (st == HSP_OK) {
        st = hsp_dataset_cut(&x->held.set, &r->cut, &stop, err);
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
    struct reading *r = arg;
    struct hsp_data_cache *c = r->c;
    struct hsp_err why = {0};
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&c->lock);
    struct entry *x = hold(c->last), *old = NULL;
    (void)pthread_mutex_unlock(&c->lock);
    if (x != NULL && !is_wanted(x, r)) {
        let_go(c, x);
        x = NULL;
    }
    if (x == NULL) {
        st = read_all(r, &x, &why);
    }
    (void)pthread_mutex_lock(&c->lock);
    bool taken = st == HSP_OK && !r->give_up && !r->left;
    if (taken) {
        if (c->last != x) {
            old = c->last;
            c->last = hold(x);
        }
        r->found = x;
    }
    r->status = st;
    r->why = why;
    r->over = true;
    c->n_left -= r->left;
    struct reading *was = c->now == r ? r : NULL;
    c->now = was != NULL ? NULL : c->now;
    (void)pthread_cond_broadcast(&c->done);
    (void)pthread_mutex_unlock(&c->lock);
    let_go(c, old);
    let_go(c, taken ? NULL : x);
    reading_unref(was);
    reading_unref(r);
    return NULL;
}

/* ---- asking; under the lock ---- */

/* Returns true if the reading under way is for the request @w. */
static bool is_read(const struct reading *r, const struct hsp_data_wish *w)
{
    return !r->give_up && r->format == w->format && r->vocab == w->vocab &&
           hsp_data_cut_equal(&r->cut, &w->cut) && strcmp(r->path, w->path) == 0;
}

/* Nobody reads: now @w is read. HSP_ENOMEM; HSP_EIO: too many are left behind. */
static enum hsp_status begin(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                             struct hsp_err *err)
{
    if (c->n_left >= HSP_DATA_LEFT_BEHIND) {
        return hsp_err_set(err, HSP_EIO, 0,
                           "%s is not read: %u readings of data files do not end; repair the file "
                           "system that does not answer, or start hspmd-worker again",
                           w->path, c->n_left);
    }
    struct reading *r = calloc(1, sizeof(*r));
    char *path = strdup(w->path);
    if (r != NULL && path != NULL) {
        *r = (struct reading){.c = c,
                              .path = path,
                              .format = w->format,
                              .vocab = w->vocab,
                              .cut = w->cut,
                              .users = 2};
        c->has_thread = pthread_create(&c->thread, NULL, read_thread, r) == 0;
        if (c->has_thread) { /* the thread waits for the lock */
            c->users++;
            c->now = r;
            return HSP_OK;
        }
    }
    free(path);
    free(r);
    return hsp_err_nomem(err, "reading the data set %s", w->path);
}

/* Waits for a change, for a short time. Returns false if the caller of @w must not wait any
 * more. */
static bool wait_a_little(struct hsp_data_cache *c, const struct hsp_data_wish *w)
{
    if (w->stop != NULL) {
        (void)pthread_mutex_unlock(&c->lock);
        bool stop = w->stop->asked(w->stop->ctx);
        (void)pthread_mutex_lock(&c->lock);
        if (stop) {
            return false;
        }
    }
    wait_until(c, clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
    return true;
}

static enum hsp_status not_waited_for(const struct hsp_data_wish *w, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ECANCELED, 0, "%s is not waited for any more", w->path);
}

/* Waits until nobody reads anything but @w. A reading without callers gives way. HSP_ECANCELED. */
static enum hsp_status make_way(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                                struct hsp_err *err)
{
    while (c->now != NULL && !is_read(c->now, w)) {
        struct reading *r = c->now;
        if (r->n_waiting == 0) {
            give_up(r);
        }
        if (r->give_up && clock_ns(CLOCK_MONOTONIC) - r->give_up_ns > PATIENCE_NS) {
            leave_behind(c);
        } else if (!wait_a_little(c, w)) {
            return not_waited_for(w, err);
        }
    }
    return HSP_OK;
}

/* The result of @r, which is held for this. */
static enum hsp_status await(struct reading *r, const struct hsp_data_wish *w, struct entry **ret,
                             struct hsp_err *err)
{
    r->n_waiting++;
    bool on = true;
    while (!r->over && on) { /* the file system may never answer: then hspmdd ends the wish */
        on = wait_a_little(r->c, w);
    }
    r->n_waiting--;
    if (!r->over) {
        return not_waited_for(w, err);
    }
    if (r->status == HSP_OK) {
        *ret = hold(r->found);
    } else if (err != NULL) {
        *err = r->why;
    }
    return r->status;
}

enum hsp_status hsp_data_cache_get(struct hsp_data_cache *c, const struct hsp_data_wish *w,
                                   const struct hsp_held_data **ret, struct hsp_err *err)
{
    struct reading *r = NULL;
    struct entry *x = NULL;
    (void)pthread_mutex_lock(&c->lock);
    enum hsp_status st = HSP_OK;
    do { /* another may begin while the last thread is joined */
        st = make_way(c, w, err);
        join_last(c);
    } while (st == HSP_OK && c->now != NULL && !is_read(c->now, w));
    if (st == HSP_OK && c->now == NULL) {
        st = begin(c, w, err);
    }
    if (st == HSP_OK) {
        r = c->now;
        r->users++;
        st = await(r, w, &x, err);
    }
    c->users += st == HSP_OK;
    (void)pthread_mutex_unlock(&c->lock);
    reading_unref(r);
    if (st == HSP_OK) {
        *ret = &x->held;
    }
    return st;
}

const struct hsp_held_data *hsp_data_cache_hold(struct hsp_data_cache *c,
                                                const struct hsp_held_data *d)
{
    (void)pthread_mutex_lock(&c->lock);
    (void)hold((struct entry *)(uintptr_t)d);
    c->users++;
    (void)pthread_mutex_unlock(&c->lock);
    return d;
}

const struct hsp_held_data *hsp_data_cache_put(struct hsp_data_cache *c,
                                               const struct hsp_held_data *d)
{
    if (d != NULL) {
        let_go(c, (struct entry *)(uintptr_t)d);
        cache_unref(c);
    }
    return NULL;
}
