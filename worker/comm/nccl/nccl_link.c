#include "worker/comm/nccl/nccl_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/check.h"
#include "proto/base/str.h"
#include "worker/comm/nccl/nccl_end.h"

#define LOOK_MS        20            /* between two looks for errors while something is under way */
#define NAP_NS         100000        /* between two looks at a greeting */
#define GREETING_LEAST ((size_t)256) /* bytes of the smallest collectives of a greeting */
#define GREETING_STEP  32            /* between two sizes */

static enum hsp_status refused(const struct hsp_link *l, struct hsp_err *err)
{
    if (err != NULL) {
        *err = l->err;
    }
    return l->err.code;
}

/* ---- the link's thread ---- */

static void enter_state(struct hsp_link *l, enum hsp_nccl_link_state s)
{
    (void)pthread_mutex_lock(&l->lock);
    l->state = l->state == HSP_LINK_BROKEN ? HSP_LINK_BROKEN : s;
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
}

/* Waits for the communicator, which the parent's thread hands over, or for the reason why not. */
static enum nccl_result take_gift(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    while (l->gift == NULL && l->state == HSP_LINK_MAKING && !atomic_load(&l->aborting)) {
        (void)pthread_cond_wait(&l->cond, &l->lock);
    }
    l->handle = l->gift;
    (void)pthread_mutex_unlock(&l->lock);
    return l->handle != NULL ? NCCL_SUCCESS : NCCL_IN_PROGRESS;
}

/* ---- greeting ---- */

/* Waits for hsp_link_connect. Returns false if the link is aborted. */
static bool await_connect(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    while (!l->connecting && !atomic_load(&l->aborting)) {
        (void)pthread_cond_wait(&l->cond, &l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return !atomic_load(&l->aborting);
}

static bool goes_on(enum nccl_result r)
{
    return r == NCCL_SUCCESS || r == NCCL_IN_PROGRESS;
}

/* Gives one collective of each kind that moves @bytes in all. All share one buffer; their results
 * are never read. */
static enum nccl_result greet_all(const struct hsp_link *l, size_t bytes, void *stream)
{
    const struct hsp_nccl_lib *lib = l->env->lib;
    float *at = l->env->greeting;
    size_t all = bytes / sizeof *at, part = all / l->n > 0 ? all / l->n : 1;
    float *mine = at + l->me * part;
    enum nccl_result r = lib->AllReduce(at, at, all, NCCL_FLOAT32, NCCL_SUM, l->handle, stream);
    if (goes_on(r)) {
        r = lib->AllGather(mine, at, part, NCCL_FLOAT32, l->handle, stream);
    }
    return goes_on(r)
               ? lib->ReduceScatter(at, mine, part, NCCL_FLOAT32, NCCL_SUM, l->handle, stream)
               : r;
}

/* Gives the greeting in one group: the library makes all connections that a group needs before it
 * gives the device any of its work. */
static enum nccl_result greet_group(const struct hsp_link *l, void *stream)
{
    const struct hsp_nccl_lib *lib = l->env->lib;
    void *at = l->env->greeting;
    enum nccl_result r = lib->GroupStart();
    if (r != NCCL_SUCCESS) {
        return r;
    }
    r = lib->Broadcast(at, at, 1, NCCL_INT8, 0, l->handle, stream); /* always by the ring */
    for (size_t b = GREETING_LEAST; goes_on(r) && b <= l->env->greeting_bytes; b *= GREETING_STEP) {
        r = greet_all(l, b, stream);
    }
    enum nccl_result ended = lib->GroupEnd();
    return goes_on(r) ? ended : r;
}

/* Waits until the device has done the greeting. */
static enum nccl_result await_greeting(struct hsp_link *l)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct hsp_backend *b = l->env->backend;
    struct hsp_err err = {0};
    uint64_t ticket = 0;
    enum nccl_result r = NCCL_SUCCESS;
    enum hsp_status st = b->mark(b, HSP_DEVQ_GREET, &ticket, &err);
    while (st == HSP_OK && r == NCCL_SUCCESS && !b->reached(b, HSP_DEVQ_GREET, ticket)) {
        (void)nanosleep(&nap, NULL);
        r = hsp_link_settle(l, l->handle, NCCL_IN_PROGRESS, NULL);
    }
    if (st == HSP_OK && r == NCCL_SUCCESS) {
        st = b->finish(b, HSP_DEVQ_GREET, ticket, &err);
    }
    if (st != HSP_OK) {
        hsp_link_break(l, &err);
        return NCCL_IN_PROGRESS;
    }
    return r;
}

/* Connects the members when hsp_link_connect was called, as the header says. */
static enum nccl_result greet(struct hsp_link *l)
{
    const struct hsp_nccl_lib *lib = l->env->lib;
    struct hsp_backend *b = l->env->backend;
    enter_state(l, HSP_LINK_MADE);
    if (!await_connect(l)) {
        return NCCL_IN_PROGRESS;
    }
    void *stream = b->native(b, HSP_DEVQ_GREET), *at = l->env->greeting;
    enum nccl_result r = !l->messages ? greet_group(l, stream)
                         : l->me == 0 ? lib->Send(at, 1, NCCL_INT8, 1, l->handle, stream)
                                      : lib->Recv(at, 1, NCCL_INT8, 0, l->handle, stream);
    r = hsp_link_settle(l, l->handle, r, NULL);
    return r == NCCL_SUCCESS ? await_greeting(l) : r;
}

/* ---- making ---- */

/* Makes a new communicator. A thread that waits for the end of this thread may abort a communicator
 * with a handle; until the call is over there is no handle. */
static enum nccl_result make_own(struct hsp_link *l)
{
    struct nccl_config config = hsp_nccl_config(l->max_ctas);
    enum nccl_result r =
        l->env->lib->CommInitRankConfig(&l->made, (int)l->n, l->id, (int)l->me, &config);
    (void)pthread_mutex_lock(&l->lock);
    l->handle = l->made;
    (void)pthread_mutex_unlock(&l->lock);
    r = r == NCCL_SUCCESS ? NCCL_IN_PROGRESS : r;
    return l->handle != NULL ? hsp_link_settle(l, l->handle, r, NULL) : r;
}

static void make(struct hsp_link *l)
{
    struct hsp_err err = {0};
    (void)pthread_mutex_lock(&l->call);
    enum nccl_result r = atomic_load(&l->aborting) ? NCCL_IN_PROGRESS
                         : l->is_split             ? take_gift(l)
                                                   : make_own(l);
    r = r == NCCL_SUCCESS ? greet(l) : r;
    (void)pthread_mutex_unlock(&l->call);
    if (r == NCCL_SUCCESS) {
        enter_state(l, HSP_LINK_READY);
    } else if (r != NCCL_IN_PROGRESS) {
        char what[128];
        hsp_str_printf(what, sizeof what, "a communicator of %s", l->name);
        (void)hsp_nccl_failed(l->env->lib, l->handle, r, what, &err);
        hsp_link_break(l, &err);
    }
}

/* Looks for an error of the work under way. */
static void look(struct hsp_link *l)
{
    enum nccl_result r = NCCL_SUCCESS;
    struct hsp_err err = {0};
    if (pthread_mutex_trylock(&l->call) != 0) {
        return; /* the thread that holds it sees errors itself */
    }
    if (atomic_load(&l->released)) {
        (void)pthread_mutex_unlock(&l->call);
        return;
    }
    enum nccl_result asked = l->env->lib->CommGetAsyncError(l->handle, &r);
    r = asked != NCCL_SUCCESS ? asked : r;
    if (r != NCCL_SUCCESS && r != NCCL_IN_PROGRESS) {
        char what[128];
        hsp_str_printf(what, sizeof what, "operations of %s", l->name);
        (void)hsp_nccl_failed(l->env->lib, l->handle, r, what, &err);
        hsp_link_break(l, &err);
    }
    (void)pthread_mutex_unlock(&l->call);
}

static bool reached(const struct hsp_link *l)
{
    struct hsp_backend *b = l->env->backend;
    return (l->ticket[0] == 0 || b->reached(b, l->q[0], l->ticket[0])) &&
           (l->ticket[1] == 0 || b->reached(b, l->q[1], l->ticket[1]));
}

/* ---- splitting ---- */

/* Hands a communicator to @child. Returns false if the child has ended already and would not abort
 * it. */
static bool give_gift(struct hsp_link *child, struct nccl_comm *handle)
{
    (void)pthread_mutex_lock(&child->lock);
    bool takes = !child->leaving;
    if (takes) {
        child->gift = handle;
        (void)pthread_cond_broadcast(&child->cond);
    }
    (void)pthread_mutex_unlock(&child->lock);
    return takes;
}

/* Takes part in one split. The library may write l->offshoot until the call is over. */
static enum nccl_result split(struct hsp_link *l, const struct hsp_link_turn *t)
{
    const struct hsp_nccl_lib *lib = l->env->lib;
    struct nccl_config config = hsp_nccl_config(t->max_ctas);
    (void)pthread_mutex_lock(&l->call);
    if (atomic_load(&l->released)) {
        (void)pthread_mutex_unlock(&l->call);
        return NCCL_IN_PROGRESS;
    }
    l->offshoot = NULL;
    /* The work has only begun when its call returns, also with success. */
    enum nccl_result r = lib->CommSplit(l->handle, t->color, t->place, &l->offshoot, &config);
    r = hsp_link_settle(l, l->handle, r == NCCL_SUCCESS ? NCCL_IN_PROGRESS : r, NULL);
    if (r == NCCL_SUCCESS && l->offshoot != NULL) {
        r = hsp_link_settle(l, l->offshoot, NCCL_IN_PROGRESS, NULL);
    }
    r = r == NCCL_SUCCESS && (l->offshoot != NULL) != (t->child != NULL) ? NCCL_INTERNAL_ERROR : r;
    (void)pthread_mutex_unlock(&l->call);
    return r;
}

/* Takes the next turn. */
static void take_turn(struct hsp_link *l)
{
    struct hsp_err err = {0};
    enum nccl_result r = split(l, l->turn);
    if (r == NCCL_SUCCESS) {
        if (l->turn->child != NULL) {
            if (!give_gift(l->turn->child, l->offshoot)) {
                (void)l->env->lib->CommAbort(l->offshoot); /* there is nothing left to try */
            }
            l->offshoot = NULL;
        }
        (void)pthread_mutex_lock(&l->lock);
        l->n_turns--;
        l->turn++;
        (void)pthread_mutex_unlock(&l->lock);
    } else if (r != NCCL_IN_PROGRESS) {
        char what[128];
        hsp_str_printf(what, sizeof what, "the part split off %s", l->name);
        (void)hsp_nccl_failed(l->env->lib, l->handle, r, what, &err);
        hsp_link_break(l, &err);
    }
}

/* Ends the turns that are left, and tells their children. */
static void fail_turns(struct hsp_link *l)
{
    struct hsp_err why = {0};
    (void)hsp_err_set(&why, HSP_EPEER, 0, "%s ended before a part was split off", l->name);
    (void)hsp_link_state(l, &why);
    for (uint32_t k = 0; k < l->n_turns; k++) {
        if (l->turn[k].child != NULL) {
            hsp_link_break(l->turn[k].child, &why);
        }
    }
    (void)pthread_mutex_lock(&l->lock);
    l->n_turns = 0;
    (void)pthread_mutex_unlock(&l->lock);
}

/* ---- between operations ---- */

/* Looks for errors and takes turns until the link is broken or closed. */
static void mind(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    while (l->state == HSP_LINK_READY && !l->closing && !atomic_load(&l->aborting)) {
        if (l->n_turns > 0) {
            (void)pthread_mutex_unlock(&l->lock);
            take_turn(l);
            (void)pthread_mutex_lock(&l->lock);
            continue;
        }
        if (reached(l)) {
            (void)pthread_cond_wait(&l->cond, &l->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&l->lock);
        look(l);
        (void)pthread_mutex_lock(&l->lock);
        if (l->state == HSP_LINK_READY && !l->closing && !atomic_load(&l->aborting)) {
            struct timespec until = hsp_link_after_ms(LOOK_MS, CLOCK_MONOTONIC);
            (void)pthread_cond_timedwait(&l->cond, &l->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static void link_free(struct hsp_link *l)
{
    (void)pthread_cond_destroy(&l->cond);
    (void)pthread_mutex_destroy(&l->call);
    (void)pthread_mutex_destroy(&l->lock);
    (void)pthread_mutex_destroy(&l->telling);
    free(l->process);
    free(l);
}

static void *link_main(void *arg)
{
    struct hsp_link *l = arg;
    (void)l->env->backend->native(l->env->backend, HSP_DEVQ_COMM); /* this thread uses the device */
    make(l);
    mind(l);
    fail_turns(l);
    hsp_link_tell(l);
    (void)pthread_mutex_lock(&l->lock);
    bool order = l->state == HSP_LINK_READY && !atomic_load(&l->aborting) && reached(l);
    (void)pthread_mutex_unlock(&l->lock);
    hsp_link_end_here(l, order);
    (void)pthread_mutex_lock(&l->lock);
    l->ended = true;
    bool abandoned = l->abandoned;
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
    if (abandoned) {
        link_free(l);
    }
    return NULL;
}

/* ---- life ---- */

/* Initialises the locks; on Linux none of these calls can fail. */
static void init_locks(struct hsp_link *l)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&l->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&l->call, NULL);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_mutex_init(&l->telling, NULL);
}

enum hsp_status hsp_link_new(const struct hsp_link_env *env, const struct hsp_link_spec *s,
                             struct hsp_link **ret, struct hsp_err *err)
{
    struct hsp_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return hsp_err_nomem(err, "a communicator");
    }
    l->env = env;
    hsp_str_printf(l->name, sizeof l->name, "%s", s->name);
    l->key = s->key;
    l->nonce = s->nonce;
    l->n = s->n;
    l->me = s->me;
    l->messages = s->messages;
    l->id = s->id;
    l->is_split = s->is_split;
    l->max_ctas = s->max_ctas;
    l->process = malloc(s->n * sizeof *s->process);
    init_locks(l);
    if (l->process == NULL) {
        link_free(l);
        return hsp_err_nomem(err, "a communicator");
    }
    memcpy(l->process, s->process, s->n * sizeof *s->process);
    int rc = pthread_create(&l->thread, NULL, link_main, l);
    if (rc != 0) {
        link_free(l);
        return hsp_err_set(err, HSP_ENOMEM, rc, "no thread for a communicator");
    }
    *ret = l;
    return HSP_OK;
}

void hsp_link_part(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->closing = true;
    if (l->state == HSP_LINK_MAKING || l->state == HSP_LINK_MADE) {
        atomic_store(&l->aborting, true);
    }
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
}

struct hsp_link *hsp_link_close(struct hsp_link *l)
{
    if (l == NULL) {
        return NULL;
    }
    hsp_link_part(l);
    (void)hsp_link_await(l);
    (void)pthread_mutex_lock(&l->lock);
    bool abandoned = !l->ended;
    if (abandoned) {
        (void)pthread_detach(l->thread);
        l->abandoned = true; /* from here on the link may be freed as soon as the lock is free */
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (!abandoned) {
        (void)pthread_join(l->thread, NULL);
        link_free(l);
    }
    return NULL;
}

/* HSP_OK: the link has reached state @s; HSP_AGAIN: not yet; else the reason why it is broken. */
static enum hsp_status has_come_to(struct hsp_link *l, enum hsp_nccl_link_state s,
                                   struct hsp_err *err)
{
    (void)pthread_mutex_lock(&l->lock);
    enum hsp_status st = l->state == HSP_LINK_BROKEN ? refused(l, err)
                         : l->state >= s             ? HSP_OK
                                                     : HSP_AGAIN;
    (void)pthread_mutex_unlock(&l->lock);
    return st;
}

enum hsp_status hsp_link_state(struct hsp_link *l, struct hsp_err *err)
{
    return has_come_to(l, HSP_LINK_READY, err);
}

enum hsp_status hsp_link_made(struct hsp_link *l, struct hsp_err *err)
{
    return has_come_to(l, HSP_LINK_MADE, err);
}

void hsp_link_connect(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->connecting = true;
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
}

void hsp_link_watch(struct hsp_link *l, void (*on_broken)(void *ctx, const struct hsp_err *why),
                    void *ctx)
{
    int at = -1;
    (void)pthread_mutex_lock(&l->telling);
    for (int k = 0; k < HSP_LINK_WATCHERS; k++) {
        bool own = l->watcher[k].on_broken != NULL && l->watcher[k].ctx == ctx;
        at = own || (at < 0 && l->watcher[k].on_broken == NULL) ? k : at;
    }
    HSP_ASSERT(at >= 0);
    l->watcher[at] = (struct hsp_link_watcher){on_broken, ctx};
    (void)pthread_mutex_unlock(&l->telling);
}

void hsp_link_split(struct hsp_link *l, const struct hsp_link_turn *turn, uint32_t n)
{
    (void)pthread_mutex_lock(&l->lock);
    HSP_ASSERT(l->n_turns == 0);
    l->turn = turn;
    l->n_turns = l->state == HSP_LINK_READY ? n : 0;
    bool refuses = l->n_turns < n; /* the link broke meanwhile */
    struct hsp_err why = l->err;
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
    for (uint32_t k = 0; k < n && refuses; k++) {
        if (turn[k].child != NULL) {
            hsp_link_break(turn[k].child, &why);
        }
    }
}

uint32_t hsp_link_turns(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    uint32_t n = l->n_turns;
    (void)pthread_mutex_unlock(&l->lock);
    return n;
}

uint64_t hsp_link_ops(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    uint64_t ops = l->ops;
    (void)pthread_mutex_unlock(&l->lock);
    return ops;
}

const void *hsp_link_owner(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    const void *owner = l->owner;
    (void)pthread_mutex_unlock(&l->lock);
    return owner;
}

/* Returns true if the device, which is not lost, has done all operations. */
static bool done(const struct hsp_link *l)
{
    struct hsp_backend *b = l->env->backend;
    bool ok = reached(l);
    for (int k = 0; k < 2 && ok; k++) {
        ok = l->ticket[k] == 0 || b->finish(b, l->q[k], l->ticket[k], NULL) == HSP_OK;
    }
    return ok;
}

bool hsp_link_quiet(struct hsp_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    bool quiet = l->state == HSP_LINK_READY && !l->giving && done(l);
    (void)pthread_mutex_unlock(&l->lock);
    return quiet;
}

/* ---- operations ---- */

enum hsp_status hsp_link_begin(struct hsp_link *l, const void *owner, struct nccl_comm **ret_handle,
                               struct hsp_err *err)
{
    (void)pthread_mutex_lock(&l->call);
    (void)pthread_mutex_lock(&l->lock);
    enum hsp_status st = l->state == HSP_LINK_BROKEN ? refused(l, err) : HSP_OK;
    HSP_ASSERT(l->state >= HSP_LINK_READY);
    l->owner = owner;
    l->giving = st == HSP_OK;
    (void)pthread_mutex_unlock(&l->lock);
    if (st != HSP_OK) {
        (void)pthread_mutex_unlock(&l->call);
        return st;
    }
    *ret_handle = l->handle;
    return HSP_OK;
}

/* Notes that the queue has work of this link now. */
static enum hsp_status note(struct hsp_link *l, const struct hsp_link_given *g, struct hsp_err *err)
{
    struct hsp_backend *b = l->env->backend;
    uint64_t ticket = 0;
    enum hsp_status st = b->mark(b, g->q, &ticket, err);
    (void)pthread_mutex_lock(&l->lock);
    unsigned k = l->ticket[0] == 0 || l->q[0] == g->q ? 0 : 1;
    l->q[k] = g->q;
    l->ticket[k] = st == HSP_OK ? ticket : l->ticket[k];
    l->ops += g->n_ops;
    (void)pthread_cond_broadcast(&l->cond);
    (void)pthread_mutex_unlock(&l->lock);
    return st;
}

enum hsp_status hsp_link_end(struct hsp_link *l, const struct hsp_link_given *g, enum nccl_result r,
                             struct hsp_err *err)
{
    struct hsp_err why = {0};
    enum hsp_status st = HSP_OK;
    r = hsp_link_settle(l, l->handle, r, NULL);
    if (r == NCCL_SUCCESS) {
        st = note(l, g, err);
    } else if (r != NCCL_IN_PROGRESS) {
        char text[160];
        hsp_str_printf(text, sizeof text, "%s of %s", g->what, l->name);
        st = hsp_nccl_failed(l->env->lib, l->handle, r, text, &why);
        hsp_link_break(l, &why);
    }
    (void)pthread_mutex_lock(&l->lock);
    l->giving = false;
    if (l->state == HSP_LINK_BROKEN) {
        st = refused(l, err);
    }
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_mutex_unlock(&l->call);
    return st;
}
