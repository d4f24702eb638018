#include "worker/comm/nccl/nccl_end.h"

#include <stdlib.h>

#define SPIN_NS \
    200000 /* looks at a call that goes on in the background, before napping: most end sooner */
#define NAP_NS 100000 /* between two later looks */

/* Links that one decision ends. */
struct hsp_link_crew {
    pthread_mutex_t lock; /* guards the fields below, and the crew fields of links */
    pthread_cond_t cond;
    uint32_t users; /* links, and the opener */
    struct hsp_link *first;
};

static struct timespec after_ns(uint64_t ns, clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    ns += (uint64_t)t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

uint64_t hsp_nccl_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct timespec hsp_link_after_ms(uint32_t ms, clockid_t clock)
{
    return after_ns((uint64_t)ms * 1000000, clock);
}

static uint32_t patience(const struct hsp_link *l)
{
    return atomic_load(&l->env->patience_ms);
}

static bool is_past(const struct timespec *t)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

enum nccl_result hsp_link_settle(struct hsp_link *l, struct nccl_comm *c, enum nccl_result r,
                                 const struct timespec *until)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const struct timespec spun = after_ns(SPIN_NS, CLOCK_MONOTONIC);
    while (r == NCCL_IN_PROGRESS) {
        if (atomic_load(&l->aborting) || (until != NULL && is_past(until))) {
            return NCCL_IN_PROGRESS;
        }
        enum nccl_result asked = l->env->lib->CommGetAsyncError(c, &r);
        r = asked != NCCL_SUCCESS ? asked : r;
        if (r == NCCL_IN_PROGRESS && is_past(&spun)) {
            (void)nanosleep(&nap, NULL);
        }
    }
    return r;
}

void hsp_link_break(struct hsp_link *l, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&l->lock);
    if (l->state != HSP_LINK_BROKEN) {
        l->state = HSP_LINK_BROKEN;
        l->err = *why;
    }
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
}

/* Tells the watchers while the device still waits: after an abort, work behind it sees garbage. */
void hsp_link_tell(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    bool is_broken = l->state == HSP_LINK_BROKEN;
    const struct hsp_err why = l->err;
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_mutex_lock(&l->telling);
    for (int k = 0; k < HSP_LINK_WATCHERS && is_broken; k++) {
        if (l->watcher[k].on_broken != NULL) {
            l->watcher[k].on_broken(l->watcher[k].ctx, &why);
        }
    }
    (void)pthread_mutex_unlock(&l->telling);
}

/* Destroys or aborts the communicator once, whichever thread comes first. */
static void release(struct hsp_link *l, enum nccl_result (*by)(struct nccl_comm *c))
{
    (void)pthread_mutex_lock(&l->lock);
    struct nccl_comm *handle = l->handle; /* its own thread may just store a late handle */
    (void)pthread_mutex_unlock(&l->lock);
    if (handle != NULL && !atomic_exchange(&l->released, true)) {
        (void)by(handle); /* there is nothing left to try */
    }
}

static void abort_one(struct hsp_link *l)
{
    release(l, l->env->lib->CommAbort);
    if (l->offshoot != NULL) { /* of a turn that was given up */
        (void)l->env->lib->CommAbort(l->offshoot);
        l->offshoot = NULL;
    }
}

/* ---- crews ---- */

struct hsp_link_crew *hsp_crew_open(const struct hsp_nccl_lib *lib)
{
    struct hsp_link_crew *w = lib->version >= NCCL_GROUP_ABORTS ? malloc(sizeof *w) : NULL;
    if (w != NULL) {
        *w = (struct hsp_link_crew){.users = 1};
        (void)pthread_mutex_init(&w->lock, NULL); /* of the default kinds they cannot fail */
        (void)pthread_cond_init(&w->cond, NULL);
    }
    return w;
}

static void crew_put(struct hsp_link_crew *w)
{
    if (w == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    bool last = --w->users == 0;
    (void)pthread_mutex_unlock(&w->lock);
    if (last) {
        (void)pthread_cond_destroy(&w->cond);
        (void)pthread_mutex_destroy(&w->lock);
        free(w);
    }
}

/* Adds a link. Returns false if the link ends already, or is in another crew. */
static bool join(struct hsp_link_crew *w, struct hsp_link *l, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&w->lock);
    (void)pthread_mutex_lock(&l->lock);
    bool joins = l->crew == NULL && !l->leaving;
    if (joins) {
        l->crew = w;
        l->crew_why = *why;
        l->crew_next = w->first;
        w->first = l;
        w->users++;
    }
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_mutex_unlock(&w->lock);
    return joins;
}

static void wake_up(struct hsp_link *l, const struct hsp_err *why)
{
    atomic_store(&l->aborting, true);
    hsp_link_break(l, why);
}

void hsp_crew_add(struct hsp_link_crew *w, struct hsp_link *l, const struct hsp_err *why)
{
    if (w == NULL || !join(w, l, why)) {
        wake_up(l, why);
    }
}

/* The first link whose thread wakes up takes the others along. */
void hsp_crew_abort(struct hsp_link_crew *w)
{
    if (w == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock); /* a link may end, and be freed, for another reason */
    for (struct hsp_link *l = w->first; l != NULL; l = l->crew_next) {
        wake_up(l, &l->crew_why);
    }
    (void)pthread_mutex_unlock(&w->lock);
    crew_put(w);
}

/* Takes @l, which has ended, out of the crew's list, since it is freed next. */
static void crew_leave(struct hsp_link_crew *w, struct hsp_link *l)
{
    if (w == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    struct hsp_link **at = &w->first;
    while (*at != NULL && *at != l) {
        at = &(*at)->crew_next;
    }
    if (*at == l) {
        *at = l->crew_next;
    }
    (void)pthread_mutex_unlock(&w->lock);
    crew_put(w);
}

/* Marks @l and the links whose calls are free as taken by @l; the crew is locked. */
static void take_free_ones(struct hsp_link_crew *w, struct hsp_link *l)
{
    for (struct hsp_link *m = w->first; m != NULL; m = m->crew_next) {
        if (m != l && !m->taken && pthread_mutex_trylock(&m->call) == 0) {
            m->taken = true;
            m->mate = l->mate;
            l->mate = m;
        }
    }
    l->taken = true;
}

/* Aborts @first and its mates in one group; their calls are held. */
static void abort_together(struct hsp_link_crew *w, struct hsp_link *first)
{
    const struct hsp_nccl_lib *lib = first->env->lib;
    for (struct hsp_link *m = first; m != NULL; m = m->mate) {
        wake_up(m, &m->crew_why);
        hsp_link_tell(m);
    }
    enum nccl_result r = lib->GroupStart();
    for (struct hsp_link *m = first; m != NULL; m = m->mate) {
        abort_one(m);
    }
    if (r == NCCL_SUCCESS) {
        (void)lib->GroupEnd(); /* there is nothing left to try */
    }
    (void)pthread_mutex_lock(&w->lock);
    for (struct hsp_link *m = first; m != NULL; m = m->mate) {
        (void)pthread_mutex_unlock(&m->call);
        m->aborted = true;
    }
    (void)pthread_cond_broadcast(&w->cond);
    (void)pthread_mutex_unlock(&w->lock);
}

/* Aborts @l with its crew. Returns false if a call of @l is under way, so that @l must end
 * alone. */
static bool end_with_crew(struct hsp_link_crew *w, struct hsp_link *l)
{
    (void)pthread_mutex_lock(&w->lock);
    bool is_taken = l->taken, is_free = !is_taken && pthread_mutex_trylock(&l->call) == 0;
    if (is_free) {
        take_free_ones(w, l);
    }
    l->taken = true; /* by this thread or another */
    while (is_taken && !l->aborted) {
        (void)pthread_cond_wait(&w->cond, &w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (is_free) {
        abort_together(w, l);
    }
    return is_taken || is_free;
}

/* ---- one link ---- */

static void end_alone(struct hsp_link *l)
{
    struct timespec until = hsp_link_after_ms(patience(l), CLOCK_REALTIME);
    bool held = pthread_mutex_timedlock(&l->call, &until) == 0;
    abort_one(l);
    if (held) {
        (void)pthread_mutex_unlock(&l->call);
    }
}

/* Finalizes and destroys a quiet link; a member that does not do the same is not awaited long. */
static void end_in_order(struct hsp_link *l)
{
    struct timespec until = hsp_link_after_ms(patience(l), CLOCK_MONOTONIC);
    (void)pthread_mutex_lock(&l->call);
    enum nccl_result r = l->env->lib->CommFinalize(l->handle);
    r = hsp_link_settle(l, l->handle, r, &until);
    (void)pthread_mutex_lock(&l->lock);
    l->finalized = r == NCCL_SUCCESS;
    (void)pthread_mutex_unlock(&l->lock);
    release(l, r == NCCL_SUCCESS ? l->env->lib->CommDestroy : l->env->lib->CommAbort);
    (void)pthread_mutex_unlock(&l->call);
}

void hsp_link_end_here(struct hsp_link *l, bool order)
{
    (void)pthread_mutex_lock(&l->lock);
    l->leaving = true;
    if (l->handle == NULL) {
        l->handle = l->gift; /* handed over after the last wait for it */
    }
    struct hsp_link_crew *w = l->crew;
    (void)pthread_mutex_unlock(&l->lock);
    if (order && w == NULL) {
        end_in_order(l);
        return;
    }
    atomic_store(&l->aborting, true);
    if (w == NULL || !end_with_crew(w, l)) {
        end_alone(l);
    }
    abort_one(l); /* for a handle that came after the crew's abort */
    crew_leave(w, l);
}

/* Waits for the link's thread to end the link: twice its own patience, and then ours. */
bool hsp_link_await(struct hsp_link *l)
{
    struct timespec until = hsp_link_after_ms(3 * patience(l), CLOCK_MONOTONIC);
    (void)pthread_mutex_lock(&l->lock);
    while (!l->ended && pthread_cond_timedwait(&l->cond, &l->lock, &until) == 0) {
    }
    bool stuck = !l->ended, destroys = l->finalized;
    (void)pthread_mutex_unlock(&l->lock);
    if (stuck && destroys) {
        return false;
    }
    if (stuck) {
        atomic_store(&l->aborting, true);
        release(l, l->env->lib->CommAbort);
    }
    (void)pthread_mutex_lock(&l->lock);
    while (!l->ended) {
        (void)pthread_cond_wait(&l->cond, &l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return true;
}
