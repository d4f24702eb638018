/* Without failures, the thread makes the given calls one after the other, and the caller waits for
 * each call. At the end the thread frees its data.
 *
 * If the file system hangs, the caller goes on, and the thread stays in the table until its call
 * returns. If the process ends before, the thread is killed with it. */
#include "worker/executor/disk_thread.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/exec/pace.h"

#define TURN_NS INT64_C(50000000)  /* between two checks whether the epoch is over */
#define OVER_NS INT64_C(300000000) /* longest wait after the end of an epoch */

struct hsp_disk_thread {
    char path[PATH_MAX];
    void *ctx;
    void (*drop)(void *ctx);
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t cond;  /* by the monotonic clock */
    unsigned users;       /* how many of three use this struct: the thread, the table, its owner */
    hsp_disk_fn *fn;      /* call to make, or being made; NULL: none */
    int64_t since_ns;     /* time at which @fn was given */
    bool ends;            /* no more calls are given */
    bool left;            /* no caller waits for the thread any more */
    int64_t silent_ns;    /* time by which the call should have returned */
    bool over;            /* the thread has freed its data */
    enum hsp_status st;   /* result of the last call */
    struct hsp_err err;
};

/* On Linux none of these can fail. */
static void init_locks(struct hsp_disk_thread *k)
{
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&k->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void put(struct hsp_disk_thread *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool last = --k->users == 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (last) {
        (void)pthread_cond_destroy(&k->cond);
        (void)pthread_mutex_destroy(&k->lock);
        free(k);
    }
}

static void *on_thread(void *arg)
{
    struct hsp_disk_thread *k = arg;
    (void)pthread_mutex_lock(&k->lock);
    while (k->fn != NULL || !k->ends) {
        if (k->fn == NULL) {
            (void)pthread_cond_wait(&k->cond, &k->lock);
            continue;
        }
        hsp_disk_fn *fn = k->fn;
        struct hsp_err err = {0};
        (void)pthread_mutex_unlock(&k->lock);
        enum hsp_status st = fn(k->ctx, &err);
        (void)pthread_mutex_lock(&k->lock);
        k->fn = NULL;
        k->st = st;
        k->err = err;
        (void)pthread_cond_broadcast(&k->cond);
    }
    (void)pthread_mutex_unlock(&k->lock);
    k->drop(k->ctx);
    (void)pthread_mutex_lock(&k->lock);
    k->over = true;
    (void)pthread_cond_broadcast(&k->cond);
    (void)pthread_mutex_unlock(&k->lock);
    put(k);
    return NULL;
}

/* Starts a thread with three users: the thread, the table and the caller. Returns NULL if memory or
 * a thread is lacking. */
static struct hsp_disk_thread *begin(const char *path, void *ctx, void (*drop)(void *ctx))
{
    struct hsp_disk_thread *k = calloc(1, sizeof *k);
    pthread_attr_t attr;
    pthread_t thread;
    if (k == NULL) {
        return NULL;
    }
    (void)snprintf(k->path, sizeof k->path, "%s", path);
    k->ctx = ctx;
    k->drop = drop;
    k->users = 3;
    init_locks(k);
    int e = pthread_attr_init(&attr);
    if (e == 0) {
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid state */
        e = pthread_create(&thread, &attr, on_thread, k);
        (void)pthread_attr_destroy(&attr);
    }
    if (e != 0) {
        k->users = 1;
        put(k);
        return NULL;
    }
    return k;
}

/* Makes the error of a call that has not returned; the caller has locked @k. The errno is set only
 * to choose the remedy (disk_retry.h). */
static enum hsp_status no_answer(const struct hsp_disk_thread *k, struct hsp_err *err)
{
    double s = (double)(hsp_clock_ns() - k->since_ns) * 1e-9;
    enum hsp_status st =
        hsp_err_set(err, HSP_ETIMEDOUT, 0, "%s has not answered for %.0f s", k->path, s);
    if (err != NULL) {
        err->sys = ETIMEDOUT;
    }
    return st;
}

/* Removes the thread at *@at from the table if it has ended. Returns HSP_ETIMEDOUT if the thread
 * works at @path, has no waiting caller, and should have returned by now. */
static enum hsp_status look(struct hsp_disk_thread **at, const char *path, struct hsp_err *err)
{
    struct hsp_disk_thread *k = *at;
    if (k == NULL) {
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&k->lock);
    bool over = k->over;
    bool silent = !over && k->left && hsp_clock_ns() >= k->silent_ns;
    enum hsp_status st = silent && strcmp(k->path, path) == 0 ? no_answer(k, err) : HSP_OK;
    (void)pthread_mutex_unlock(&k->lock);
    if (over) {
        put(k);
        *at = NULL;
    }
    return st;
}

/* Finds a free place in the table, which the caller has locked. */
static enum hsp_status find_place(struct hsp_disk_threads *in, const char *path,
                                  struct hsp_disk_thread ***ret, struct hsp_err *err)
{
    struct hsp_disk_thread **at = NULL;
    for (uint32_t i = 0; i < HSP_DISK_THREADS; i++) {
        enum hsp_status st = look(&in->one[i], path, err);
        if (st != HSP_OK) {
            return st;
        }
        at = in->one[i] == NULL ? &in->one[i] : at;
    }
    if (at == NULL) {
        return hsp_err_set(
            err, HSP_ELIMIT, 0,
            "%u earlier calls have not ended: a disk deletes slowly, or does not answer",
            HSP_DISK_THREADS);
    }
    *ret = at;
    return HSP_OK;
}

enum hsp_status hsp_disk_open(struct hsp_disk_threads *in, const char *path, void *ctx,
                              void (*drop)(void *ctx), struct hsp_disk_thread **ret,
                              struct hsp_err *err)
{
    struct hsp_disk_thread **at = NULL;
    (void)pthread_mutex_lock(&in->lock);
    enum hsp_status st = find_place(in, path, &at, err);
    if (st == HSP_OK) {
        *at = begin(path, ctx, drop);
        *ret = *at;
        st = *at != NULL ? HSP_OK
                         : hsp_err_set(err, HSP_ENOMEM, 0, "no memory or no thread for %s", path);
    }
    (void)pthread_mutex_unlock(&in->lock);
    return st;
}

bool hsp_disk_writes(struct hsp_disk_threads *in, const char *path)
{
    bool writes = false;
    (void)pthread_mutex_lock(&in->lock);
    for (uint32_t i = 0; i < HSP_DISK_THREADS && !writes; i++) {
        struct hsp_disk_thread *k = in->one[i];
        if (k != NULL && strcmp(k->path, path) == 0) {
            (void)pthread_mutex_lock(&k->lock);
            writes = !k->over && k->left && k->silent_ns != INT64_MAX;
            (void)pthread_mutex_unlock(&k->lock);
        }
    }
    (void)pthread_mutex_unlock(&in->lock);
    return writes;
}

static bool is_done(const struct hsp_disk_thread *k)
{
    return k->ends ? k->over : k->fn == NULL;
}

/* Waits until the call has returned; the caller has locked @k. Returns false if it has not returned
 * in time. */
static bool await(struct hsp_disk_thread *k, const struct hsp_disk_wait *w)
{
    int64_t now = hsp_clock_ns(), until = now + (int64_t)w->ms * 1000000;
    bool over = false;
    k->since_ns = now;
    (void)pthread_cond_broadcast(&k->cond);
    while (!is_done(k) && now < until) {
        if (!over && w->over != NULL && w->over(w->of)) {
            over = true;
            until = now + OVER_NS < until ? now + OVER_NS : until;
        }
        int64_t turn = now + TURN_NS < until ? now + TURN_NS : until;
        const struct timespec t = {.tv_sec = turn / 1000000000, .tv_nsec = turn % 1000000000};
        (void)pthread_cond_timedwait(&k->cond, &k->lock, &t);
        now = hsp_clock_ns();
    }
    return is_done(k);
}

/* Waits until the call has returned; if it has not returned in time, leaves the thread alone
 * (`left`). The caller has locked @k. The end of an epoch shortens the wait, but not the time
 * `silent_ns`, after which the path counts as not answering. */
static void await_or_leave(struct hsp_disk_thread *k, const struct hsp_disk_wait *w)
{
    k->left = !await(k, w);
    k->silent_ns = w->deletes ? INT64_MAX : k->since_ns + (int64_t)w->ms * 1000000;
}

enum hsp_status hsp_disk_do(struct hsp_disk_thread *k, hsp_disk_fn *fn,
                            const struct hsp_disk_wait *wait, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&k->lock);
    if (!k->left) {
        k->fn = fn;
        await_or_leave(k, wait);
        k->ends = k->left;
    }
    enum hsp_status st = k->left ? no_answer(k, err) : k->st;
    if (st != HSP_OK && !k->left && err != NULL) {
        *err = k->err;
    }
    (void)pthread_mutex_unlock(&k->lock);
    return st;
}

struct hsp_disk_thread *hsp_disk_end(struct hsp_disk_thread *k, const struct hsp_disk_wait *wait)
{
    if (k != NULL) {
        (void)pthread_mutex_lock(&k->lock);
        if (!k->left) {
            k->ends = true;
            await_or_leave(k, wait);
        }
        (void)pthread_mutex_unlock(&k->lock);
        put(k);
    }
    return NULL;
}

void hsp_disk_threads_close(struct hsp_disk_threads *in)
{
    for (uint32_t i = 0; i < HSP_DISK_THREADS; i++) {
        if (in->one[i] != NULL) {
            put(in->one[i]);
            in->one[i] = NULL;
        }
    }
}
