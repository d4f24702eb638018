#include "worker/data/data_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define LOOK_NS  (NS_PER_S / 20) /* a waiting caller asks so often whether to go on */
#define PATIENCE_LOOKS \
    5 /* so long a look may last at the end: else the file system does not answer */

struct hsp_data_watch {
    struct hsp_data_cache *c;
    const struct hsp_held_data *d; /* held */

    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t change; /* its clock is the monotonic one */
    uint64_t asked, answered;
    bool ended, over; /* said to the thread; by it */
    bool left;        /* behind: the thread frees */
    pthread_t thread;
    enum hsp_status status; /* of the last answer */
    struct hsp_err why;
};

static void watch_free(struct hsp_data_watch *w)
{
    (void)hsp_data_cache_put(w->c, w->d);
    (void)pthread_cond_destroy(&w->change);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static void *watch_thread(void *arg)
{
    struct hsp_data_watch *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        uint64_t n = w->asked;
        if (n == w->answered) {
            (void)pthread_cond_wait(&w->change, &w->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&w->lock);
        struct hsp_err why = {0};
        enum hsp_status st = hsp_dataset_look(&w->d->set, &why);
        (void)pthread_mutex_lock(&w->lock);
        w->answered = n;
        w->status = st;
        w->why = why;
        (void)pthread_cond_broadcast(&w->change);
    }
    w->over = true;
    bool left = w->left;
    (void)pthread_cond_broadcast(&w->change);
    (void)pthread_mutex_unlock(&w->lock);
    if (left) {
        watch_free(w);
    }
    return NULL;
}

enum hsp_status hsp_data_watch_begin(struct hsp_data_cache *c, const struct hsp_held_data *d,
                                     struct hsp_data_watch **ret, struct hsp_err *err)
{
    struct hsp_data_watch *w = calloc(1, sizeof(*w));
    pthread_condattr_t cond;
    if (w == NULL) {
        return hsp_err_nomem(err, "a look at data files");
    }
    w->c = c;
    w->d = hsp_data_cache_hold(c, d);
    (void)pthread_mutex_init(&w->lock, NULL); /* none of these can fail on Linux */
    (void)pthread_condattr_init(&cond);
    (void)pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->change, &cond);
    (void)pthread_condattr_destroy(&cond);
    int e = pthread_create(&w->thread, NULL, watch_thread, w);
    if (e != 0) {
        watch_free(w);
        return hsp_err_set(err, HSP_ENOMEM, e, "cannot start a thread");
    }
    *ret = w;
    return HSP_OK;
}

void hsp_data_watch_ask(struct hsp_data_watch *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->asked++;
    (void)pthread_cond_broadcast(&w->change);
    (void)pthread_mutex_unlock(&w->lock);
}

/* Waits for a change, or until @ns from now. */
static void wait_ns(struct hsp_data_watch *w, int64_t ns)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    int64_t until = t.tv_sec * NS_PER_S + t.tv_nsec + ns;
    t = (struct timespec){.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    (void)pthread_cond_timedwait(&w->change, &w->lock, &t); /* early or late: looked again */
}

enum hsp_status hsp_data_watch_answer(struct hsp_data_watch *w, const struct hsp_data_stop *stop,
                                      struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&w->lock);
    while (st == HSP_OK && w->answered != w->asked) {
        wait_ns(w, LOOK_NS);
        if (w->answered != w->asked) {
            (void)pthread_mutex_unlock(&w->lock);
            bool enough = stop->asked(stop->ctx);
            (void)pthread_mutex_lock(&w->lock);
            st = enough ? hsp_err_set(err, HSP_ECANCELED, 0, "the data files are not waited for")
                        : HSP_OK;
        }
    }
    if (st == HSP_OK && w->asked != 0 && w->status != HSP_OK) {
        st = w->status;
        if (err != NULL) {
            *err = w->why;
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
    return st;
}

struct hsp_data_watch *hsp_data_watch_end(struct hsp_data_watch *w)
{
    if (w == NULL) {
        return NULL;
    }
    (void)pthread_mutex_lock(&w->lock);
    w->ended = true;
    (void)pthread_cond_broadcast(&w->change);
    for (int i = 0; !w->over && i < PATIENCE_LOOKS; i++) {
        wait_ns(w, LOOK_NS);
    }
    bool over = w->over;
    w->left = !over;
    if (!over) { /* neither fails for a thread of ours */
        (void)pthread_detach(w->thread);
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (over) {
        (void)pthread_join(w->thread, NULL);
        watch_free(w);
    }
    return NULL;
}
