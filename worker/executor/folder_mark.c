/* The happy path: the thread marks the folder, and the caller, which waits, sees that it has.
 *
 * Possible failure modes: a file system that hangs (the caller goes on; the thread keeps one of HSP_FOLDER_MARKS
 * places until there is an answer); the executor ends first (the last of both frees the marking). */
#include "worker/executor/folder_mark.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "worker/state/ckpt_sign.h"

struct hsp_folder_marking {
    char dir[PATH_MAX];
    struct hsp_ckpt_info us;
    pthread_mutex_t lock; /* the following */
    pthread_cond_t cond;  /* done; its clock is the monotonic one */
    unsigned users;       /* its thread; the place of the executor, or who waits */
    bool done;
    bool late; /* somebody has waited in vain */
    enum hsp_status st;
    struct hsp_err err;
};

/* On Linux none of these can fail. */
static void init_locks(struct hsp_folder_marking *k)
{
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&k->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void put(struct hsp_folder_marking *k)
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
    struct hsp_folder_marking *k = arg;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_ckpt_sign(k->dir, &k->us, &err);
    (void)pthread_mutex_lock(&k->lock);
    k->done = true;
    k->st = st;
    k->err = err;
    (void)pthread_cond_broadcast(&k->cond);
    (void)pthread_mutex_unlock(&k->lock);
    put(k);
    return NULL;
}

/* Of two users: the thread and the caller. NULL: no memory, or no thread. */
static struct hsp_folder_marking *begin(const char *dir, const struct hsp_ckpt_info *us)
{
    struct hsp_folder_marking *k = calloc(1, sizeof *k);
    pthread_attr_t attr;
    pthread_t thread;
    if (k == NULL) {
        return NULL;
    }
    (void)snprintf(k->dir, sizeof k->dir, "%s", dir);
    k->us = *us;
    k->users = 2;
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

static bool is_done(struct hsp_folder_marking *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool done = k->done;
    (void)pthread_mutex_unlock(&k->lock);
    return done;
}

/* The place of the job of @us, else one that may be taken; NULL: all wait for others. */
static struct hsp_folder_marking **place_of(struct hsp_folder_marks *m,
                                            const struct hsp_ckpt_info *us)
{
    struct hsp_folder_marking **taken = NULL;
    for (uint32_t i = 0; i < HSP_FOLDER_MARKS; i++) {
        struct hsp_folder_marking *k = m->one[i];
        if (k != NULL && k->us.job_id == us->job_id &&
            hsp_digest_equal(k->us.whose.cluster, us->whose.cluster)) {
            return &m->one[i];
        }
        taken = k == NULL || (taken == NULL && is_done(k)) ? &m->one[i] : taken;
    }
    if (taken != NULL && *taken != NULL) {
        put(*taken);
        *taken = NULL;
    }
    return taken;
}

/* Who waits is told of one that has kept another waiting at once. */
static enum hsp_status await(struct hsp_folder_marking *k, uint32_t ms, struct hsp_err *err)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&k->lock);
    while (!k->done && !k->late && pthread_cond_timedwait(&k->cond, &k->lock, &until) == 0) {
    }
    enum hsp_status st = k->done ? k->st : HSP_AGAIN;
    k->late = k->late || !k->done;
    if (st != HSP_OK && k->done && err != NULL) {
        *err = k->err;
    }
    (void)pthread_mutex_unlock(&k->lock);
    return st;
}

/* The marking of @us with a user more, under way or done. */
static enum hsp_status take(struct hsp_folder_marks *m, const char *dir,
                            const struct hsp_ckpt_info *us, struct hsp_folder_marking **ret,
                            struct hsp_err *err)
{
    struct hsp_folder_marking **at = place_of(m, us);
    if (at == NULL) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "the folders of %u other jobs do not answer",
                           HSP_FOLDER_MARKS);
    }
    *at = *at != NULL ? *at : begin(dir, us);
    if (*at == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory or no thread to mark %s", dir);
    }
    (void)pthread_mutex_lock(&(*at)->lock);
    (*at)->users++;
    (void)pthread_mutex_unlock(&(*at)->lock);
    *ret = *at;
    return HSP_OK;
}

/* One that failed is tried again by the next call. */
static void forget(struct hsp_folder_marks *m, struct hsp_folder_marking *k)
{
    (void)pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < HSP_FOLDER_MARKS; i++) {
        if (m->one[i] == k) {
            m->one[i] = NULL;
            put(k);
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
}

enum hsp_status hsp_folder_mark(struct hsp_folder_marks *m, const char *dir,
                                const struct hsp_ckpt_info *us, uint32_t ms, struct hsp_err *err)
{
    struct hsp_folder_marking *k = NULL;
    (void)pthread_mutex_lock(&m->lock);
    enum hsp_status st = take(m, dir, us, &k, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (st != HSP_OK) {
        return st;
    }
    st = await(k, ms, err);
    if (st != HSP_OK && st != HSP_AGAIN) {
        forget(m, k);
    }
    put(k);
    return st;
}

void hsp_folder_marks_close(struct hsp_folder_marks *m)
{
    for (uint32_t i = 0; i < HSP_FOLDER_MARKS; i++) {
        if (m->one[i] != NULL) {
            put(m->one[i]);
            m->one[i] = NULL;
        }
    }
}
