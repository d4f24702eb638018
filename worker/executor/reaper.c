/* Without failures, a gift wakes the thread, which makes the calls of all gifts in turn and waits
 * for the next gift.
 *
 * If a call never returns, hsp_reaper_hangs returns true; if the call frees device memory, the
 * agent then kills the process. If there is no descriptor for the folder, executors that lack room
 * do not wait. */
#include "worker/executor/reaper.h"

#include <unistd.h>

#include "worker/exec/pace.h"
#include "worker/executor/heartbeat.h"
#include "worker/state/segment_free.h"

/* Under the lock. */
static bool is_busy(const struct hsp_reaper *r)
{
    return r->first != NULL || r->began_ns != 0;
}

/* Under the lock. */
static void raise_room(struct hsp_reaper *r)
{
    r->room = r->room >= 0 ? r->room : hsp_segment_room_comes(r->dir);
}

/* Under the lock. */
static void lower_room(struct hsp_reaper *r)
{
    if (!is_busy(r) && !r->keeps && r->room >= 0) {
        (void)close(r->room);
        r->room = -1;
    }
}

static struct hsp_gift *take(struct hsp_reaper *r)
{
    struct hsp_gift *g = r->first;
    if (g != NULL) {
        r->first = g->after;
        r->end = r->first != NULL ? r->end : &r->first;
        g->given = false;
    }
    return g;
}

static void *reap(void *arg)
{
    struct hsp_reaper *r = arg;
    (void)pthread_mutex_lock(&r->lock);
    while (!r->ends || r->first != NULL) {
        struct hsp_gift *g = take(r);
        if (g == NULL) {
            (void)pthread_cond_wait(&r->change, &r->lock);
            continue;
        }
        void (*work)(void *of) = g->work;
        void *of = g->of;
        r->began_ns = hsp_clock_ns();
        (void)pthread_mutex_unlock(&r->lock);
        work(of);
        (void)pthread_mutex_lock(&r->lock);
        r->began_ns = 0;
        lower_room(r);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

enum hsp_status hsp_reaper_open(struct hsp_reaper *r, const char *dir, struct hsp_err *err)
{
    *r = (struct hsp_reaper){.dir = dir, .long_ms = HSP_HEARTBEAT_LONG_MS, .room = -1};
    r->end = &r->first;
    (void)pthread_mutex_init(&r->lock, NULL); /* neither can fail on Linux */
    (void)pthread_cond_init(&r->change, NULL);
    r->has_thread = pthread_create(&r->thread, NULL, reap, r) == 0;
    return r->has_thread ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "cannot start a thread");
}

void hsp_reaper_close(struct hsp_reaper *r)
{
    if (r->has_thread) {
        (void)pthread_mutex_lock(&r->lock);
        r->ends = true;
        (void)pthread_cond_signal(&r->change);
        (void)pthread_mutex_unlock(&r->lock);
        (void)pthread_join(r->thread, NULL); /* fails only for threads that are not ours */
        r->has_thread = false;
        r->keeps = false;
        lower_room(r);
        (void)pthread_cond_destroy(&r->change);
        (void)pthread_mutex_destroy(&r->lock);
    }
}

void hsp_reaper_give(struct hsp_reaper *r, struct hsp_gift *g, void (*work)(void *of), void *of)
{
    if (r == NULL) {
        work(of);
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    if (!g->given) {
        raise_room(r);
        *g = (struct hsp_gift){.work = work, .of = of, .given = true};
        *r->end = g;
        r->end = &g->after;
        (void)pthread_cond_signal(&r->change);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void hsp_reaper_keep(struct hsp_reaper *r, bool on)
{
    if (r == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    r->keeps = on;
    if (on) {
        raise_room(r);
    } else {
        lower_room(r);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

bool hsp_reaper_busy(struct hsp_reaper *r)
{
    if (r == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(&r->lock);
    bool busy = is_busy(r);
    (void)pthread_mutex_unlock(&r->lock);
    return busy;
}

bool hsp_reaper_hangs(struct hsp_reaper *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool hangs = r->began_ns != 0 && (hsp_clock_ns() - r->began_ns) / 1000000 >= r->long_ms;
    (void)pthread_mutex_unlock(&r->lock);
    return hangs;
}
