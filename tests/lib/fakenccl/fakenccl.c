/* Defines the calls of the fake NCCL, and its faults. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakenccl/fakencclint.h"
#include "tests/lib/figures.h"

#define MAX_GROUP 64 /* communicators of one group of calls */

struct fake fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .version = FAKE_NEWEST};

struct fake_test fake_test;
_Thread_local int fake_process;

static _Thread_local struct {
    int depth;
    struct kernel *kernel[MAX_GROUP];
    void *stream[MAX_GROUP];
    int n;
    struct nccl_comm *abort[MAX_GROUP];
    int n_aborts;
    enum nccl_result r;
} group;

unsigned fake_draw(unsigned below)
{
    uint64_t x = fake.seed + UINT64_C(0x9e3779b97f4a7c15) * ++fake.drawn; /* splitmix64 */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((x ^ x >> 31) % below);
}

void fake_misuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (fake_test.n_misuses < FAKE_MISUSES) {
        (void)vsnprintf(fake_test.misuse[fake_test.n_misuses], sizeof fake_test.misuse[0], fmt, ap);
    }
    fake_test.n_misuses++;
    va_end(ap);
}

/* ---- every call ---- */

static bool hits(struct fake_order *o, const char *name)
{
    return o->nth > 0 && (o->name == NULL || strcmp(o->name, name) == 0) && --o->nth == 0;
}

static void count(const char *name)
{
    unsigned k = 0;
    while (k < fake_test.n_names && strcmp(fake_test.call[k].name, name) != 0) {
        k++;
    }
    if (k == fake_test.n_names && k < FAKE_NAMES) {
        fake_test.call[fake_test.n_names++].name = name;
    }
    fake_test.call[k].n++;
    fake_test.n_calls_of[fake_process]++;
}

static bool aborted(const struct nccl_comm *c)
{
    if (c != NULL && c->aborted) {
        return true;
    }
    for (int k = 0; c == NULL && k < group.n; k++) {
        if (group.kernel[k]->c->aborted) {
            return true;
        }
    }
    return false;
}

/* A call, or the group of calls it belongs to, that was under way when the communicator ended is no
 * misuse: on a busy machine it may come to the lock long after it began. */
static _Thread_local uint64_t began; /* how many had ended then */
static _Thread_local bool polled;    /* the call before was ncclCommGetAsyncError, too */

static bool is_late(const struct nccl_comm *c)
{
    return c == NULL || (c->gone && c->ended <= began);
}

static void come_in(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.n_inside++;
}

static enum nccl_result leave_call(enum nccl_result r)
{
    fake.n_inside--;
    (void)pthread_cond_broadcast(&fake.cond);
    (void)pthread_mutex_unlock(&fake.lock);
    return r;
}

/* Takes the lock. Not NCCL_SUCCESS: the call ends with that, the lock is not held. */
static enum nccl_result enter_call(const char *name, struct nccl_comm *c)
{
    began = group.depth > 0 ? began : atomic_load(&fake.n_ended);
    come_in();
    int p = fake_process;
    bool asks = strcmp(name, "ncclCommGetAsyncError") == 0, again = asks && polled;
    polled = asks;
    if (!again && fake_test.die[p] > 0 && --fake_test.die[p] == 0) {
        fake_test.dead[p] = true;
        hsp_figure("killed", 1);
        (void)pthread_cond_broadcast(&fake.cond);
    }
    bool was_dead = fake_test.dead[p];
    while (fake_test.dead[p]) {
        (void)pthread_cond_wait(&fake.cond, &fake.lock);
    }
    count(name);
    hsp_figure(name, 1);
    bool ends = strcmp(name, "ncclCommAbort") == 0 || strcmp(name, "ncclCommDestroy") == 0;
    enum nccl_result r =
        was_dead && !ends ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS; /* revived: it cleans up */
    if (r == NCCL_SUCCESS && hits(&fake_test.fail, name)) {
        r = (enum nccl_result)fake_test.fail.result;
        hsp_figure("refused", 1);
    }
    if (hits(&fake_test.hang, name)) {
        hsp_figure("hung", 1);
        fake_test.n_hung++;
        if (c != NULL) {
            c->in_call = true;
        }
        while (!aborted(c) && !fake.resets) {
            (void)pthread_cond_wait(&fake.cond, &fake.lock);
        }
        r = NCCL_SYSTEM_ERROR;
    }
    return r == NCCL_SUCCESS ? r : leave_call(r);
}

/* ---- communicators ---- */

static bool in_progress(struct nccl_comm *c)
{
    return c->q->n_joined < c->q->n || c->polls > 0 || !fake_connected(c) || fake_splitting(c) ||
           ((c->waits || c->final) && c->n_done < c->n_given) ||
           (c->final && c->q->n_final < c->q->n);
}

/* Whether a call may be made for it; the lock is held. */
static bool usable(const char *name, struct nccl_comm *c)
{
    if (is_late(c)) {
        fake_misuse("%s of a communicator that is gone", name);
    }
    if (c == NULL || c->gone) {
        return false;
    }
    if (c->error != NCCL_SUCCESS) {
        return false;
    }
    if (in_progress(c)) {
        fake_misuse("%s while the call before it is in progress", name);
        return false;
    }
    return true;
}

struct nccl_comm *fake_join(struct clique *q, int me, int process)
{
    struct nccl_comm *c = calloc(1, sizeof *c);
    uint64_t *at = calloc(2 * (size_t)q->n, sizeof *at);
    bool *asked = calloc(2 * (size_t)q->n, sizeof *asked);
    if (c == NULL || at == NULL || asked == NULL) {
        abort();
    }
    *c = (struct nccl_comm){.next = fake.comms, .q = q, .me = me, .process = process};
    c->n_sent = at;
    c->n_taken = at + q->n;
    c->asked = asked;
    c->last = &c->first;
    c->polls = (int)fake_draw(4);
    fake.comms = c;
    q->member[me] = c;
    q->n_joined++;
    (void)pthread_cond_broadcast(&fake.cond);
    return c;
}

struct clique *fake_clique(const struct nccl_id *id, int n)
{
    for (struct clique *q = fake.cliques; q != NULL; q = q->next) {
        if (memcmp(&q->id, id, sizeof *id) == 0) {
            return q;
        }
    }
    struct clique *q = calloc(1, sizeof *q);
    if (q == NULL || (q->member = calloc((size_t)n, sizeof(struct nccl_comm *))) == NULL) {
        abort();
    }
    q->id = *id;
    q->n = n;
    q->next = fake.cliques;
    fake.cliques = q;
    return q;
}

static enum nccl_result join(const struct nccl_id *id, int n, int me, struct nccl_comm **ret)
{
    struct clique *q = fake_clique(id, n);
    if (q->n != n || me < 0 || me >= n || q->member[me] != NULL) {
        fake_misuse("member %d of %d joins a communicator of %d", me, n, q->n);
        return NCCL_INVALID_ARGUMENT;
    }
    *ret = fake_join(q, me, fake_process);
    return NCCL_IN_PROGRESS;
}

/* The names below are the library's. */
#define CALL __attribute__((visibility("default")))
CALL enum nccl_result ncclGetVersion(int *ret);
CALL enum nccl_result ncclGetUniqueId(struct nccl_id *ret);
CALL enum nccl_result ncclCommInitRankConfig(struct nccl_comm **ret, int n, struct nccl_id id,
                                             int me, struct nccl_config *config);
CALL enum nccl_result ncclCommSplit(struct nccl_comm *c, int color, int key, struct nccl_comm **ret,
                                    struct nccl_config *config);
CALL enum nccl_result ncclCommFinalize(struct nccl_comm *c);
CALL enum nccl_result ncclCommDestroy(struct nccl_comm *c);
CALL enum nccl_result ncclCommAbort(struct nccl_comm *c);
CALL enum nccl_result ncclCommGetAsyncError(struct nccl_comm *c, enum nccl_result *ret);
CALL const char *ncclGetErrorString(enum nccl_result r);
CALL const char *ncclGetLastError(struct nccl_comm *c);
CALL enum nccl_result ncclGroupStart(void);
CALL enum nccl_result ncclGroupEnd(void);
CALL enum nccl_result ncclSend(const void *buf, size_t n, enum nccl_type t, int peer,
                               struct nccl_comm *c, void *stream);
CALL enum nccl_result ncclRecv(void *buf, size_t n, enum nccl_type t, int peer, struct nccl_comm *c,
                               void *stream);
CALL enum nccl_result ncclAllReduce(const void *in, void *out, size_t n, enum nccl_type t,
                                    enum nccl_op op, struct nccl_comm *c, void *stream);
CALL enum nccl_result ncclReduce(const void *in, void *out, size_t n, enum nccl_type t,
                                 enum nccl_op op, int root, struct nccl_comm *c, void *stream);
CALL enum nccl_result ncclReduceScatter(const void *in, void *out, size_t n, enum nccl_type t,
                                        enum nccl_op op, struct nccl_comm *c, void *stream);
CALL enum nccl_result ncclAllGather(const void *in, void *out, size_t n, enum nccl_type t,
                                    struct nccl_comm *c, void *stream);
CALL enum nccl_result ncclBroadcast(const void *in, void *out, size_t n, enum nccl_type t, int root,
                                    struct nccl_comm *c, void *stream);

enum nccl_result ncclGetVersion(int *ret)
{
    *ret = fake.version;
    return NCCL_SUCCESS;
}

enum nccl_result ncclGetUniqueId(struct nccl_id *ret)
{
    enum nccl_result r = enter_call(__func__, NULL);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->internal, sizeof ret->internal, "fake %u", ++fake_test.n_ids);
    return leave_call(NCCL_SUCCESS);
}

static bool config_ok(const char *name, const struct nccl_config *config)
{
    bool ok = config != NULL && config->magic == NCCL_MAGIC && config->size == sizeof *config &&
              config->blocking == 0;
    if (!ok) {
        fake_misuse("%s with a config that is none, or whose calls would wait", name);
    }
    return ok;
}

enum nccl_result ncclCommInitRankConfig(struct nccl_comm **ret, int n, struct nccl_id id, int me,
                                        struct nccl_config *config)
{
    enum nccl_result r = enter_call(__func__, NULL);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    return leave_call(config_ok(__func__, config) ? join(&id, n, me, ret) : NCCL_INVALID_ARGUMENT);
}

enum nccl_result ncclCommSplit(struct nccl_comm *c, int color, int key, struct nccl_comm **ret,
                               struct nccl_config *config)
{
    enum nccl_result r = enter_call(__func__, c);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    if (!usable(__func__, c) || !config_ok(__func__, config) || color < NCCL_NO_COLOR) {
        return leave_call(NCCL_INVALID_ARGUMENT);
    }
    if (c->n_done < c->n_given) {
        fake_misuse("%s of a communicator with work under way", __func__);
    }
    return leave_call(fake_split(c, color, key, ret));
}

enum nccl_result ncclCommFinalize(struct nccl_comm *c)
{
    enum nccl_result r = enter_call(__func__, c);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    if (!usable(__func__, c)) {
        return leave_call(NCCL_INVALID_ARGUMENT);
    }
    c->final = true;
    c->q->n_final++;
    return leave_call(NCCL_IN_PROGRESS);
}

void fake_end(struct nccl_comm *c)
{
    c->gone = true;
    c->ended = atomic_fetch_add(&fake.n_ended, 1) + 1;
    (void)pthread_cond_broadcast(&fake.cond);
    if (c->has_thread) {
        c->has_thread = false;
        (void)pthread_mutex_unlock(&fake.lock);
        (void)pthread_join(c->thread, NULL);
        (void)pthread_mutex_lock(&fake.lock);
    }
}

enum nccl_result ncclCommDestroy(struct nccl_comm *c)
{
    enum nccl_result r = enter_call(__func__, c);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    if (!usable(__func__, c)) {
        return leave_call(NCCL_INVALID_ARGUMENT);
    }
    if (!c->final || c->n_done < c->n_given) {
        fake_misuse("a communicator is destroyed that was not finalized");
    }
    c->q->n_destroyed++;
    (void)pthread_cond_broadcast(&fake.cond);
    while (c->q->n_destroyed < c->q->n && !fake_test.lets_go) {
        (void)pthread_cond_wait(&fake.cond, &fake.lock);
    }
    fake_end(c);
    return leave_call(NCCL_SUCCESS);
}

/* Kernels of a process that nobody has told to end, beside those of @c. */
static bool device_works(const struct nccl_comm *c)
{
    bool works = false;
    for (const struct nccl_comm *d = fake.comms; d != NULL; d = d->next) {
        works = works || (d != c && d->process == c->process && !d->aborted && !d->gone &&
                          d->n_done < d->n_given);
    }
    return works;
}

/* All that are aborted together have been told to end. */
static void end_aborted(struct nccl_comm *c)
{
    while (device_works(c) && fake.submit == NULL && !fake_test.lets_go) {
        (void)pthread_cond_wait(&fake.cond, &fake.lock);
    }
    fake_withdraw(c);
    fake_end(c);
}

static void end_all_aborted(void)
{
    for (int k = 0; k < group.n_aborts; k++) {
        end_aborted(group.abort[k]);
    }
    group.n_aborts = 0;
}

enum nccl_result ncclCommAbort(struct nccl_comm *c)
{
    enum nccl_result r = enter_call(__func__, c);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    if (c == NULL || c->gone || c->aborted) {
        fake_misuse("a communicator is aborted that is gone");
        return leave_call(NCCL_INVALID_ARGUMENT);
    }
    fake_mark(c);
    if (group.depth > 0 && fake.version >= NCCL_GROUP_ABORTS && group.n_aborts < MAX_GROUP) {
        group.abort[group.n_aborts++] = c;
        fake_test.n_grouped++;
    } else {
        end_aborted(c);
    }
    return leave_call(NCCL_SUCCESS);
}

enum nccl_result ncclCommGetAsyncError(struct nccl_comm *c, enum nccl_result *ret)
{
    enum nccl_result r = enter_call(__func__, c);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    if (is_late(c)) {
        fake_misuse("a communicator that is gone is asked for errors");
    }
    if (c == NULL || c->gone) {
        return leave_call(NCCL_INVALID_ARGUMENT);
    }
    c->waits = c->waits && c->n_done < c->n_given;
    *ret = c->error != NCCL_SUCCESS ? c->error : in_progress(c) ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
    c->polls -= c->polls > 0;
    return leave_call(NCCL_SUCCESS);
}

const char *ncclGetErrorString(enum nccl_result r)
{
    return r == NCCL_SUCCESS        ? "no error"
           : r == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
           : r == NCCL_SYSTEM_ERROR ? "unhandled system error"
                                    : "some other error";
}

const char *ncclGetLastError(struct nccl_comm *c)
{
    return c == NULL || c->error == NCCL_SUCCESS ? "" : "spoilt by the test";
}

/* ---- operations ---- */

static void drop_ops(struct kernel *k)
{
    while (k->ops != NULL) {
        struct op *o = k->ops;
        k->ops = o->next;
        free(o);
    }
    free(k);
}

enum nccl_result ncclGroupStart(void)
{
    enum nccl_result r = enter_call(__func__, NULL);
    if (r != NCCL_SUCCESS) {
        return r;
    }
    group.depth++;
    return leave_call(NCCL_SUCCESS);
}

/* The lock is held. */
static enum nccl_result launch(enum nccl_result r)
{
    for (int k = 0; k < group.n; k++) {
        if (r == NCCL_SUCCESS && group.r == NCCL_SUCCESS) {
            fake_give(group.kernel[k], group.stream[k]);
        } else {
            drop_ops(group.kernel[k]);
        }
    }
    r = r == NCCL_SUCCESS ? group.r : r;
    r = r == NCCL_SUCCESS && group.n > 0 ? NCCL_IN_PROGRESS : r;
    group.n = 0;
    group.r = NCCL_SUCCESS;
    return r;
}

enum nccl_result ncclGroupEnd(void)
{
    enum nccl_result r = enter_call(__func__, NULL);
    if (r != NCCL_SUCCESS) {
        come_in();
    } else if (group.depth == 0) {
        fake_misuse("a group ends that has not begun");
        return leave_call(NCCL_INVALID_USAGE);
    }
    group.depth -= group.depth > 0;
    if (group.depth == 0) {
        r = launch(r);
        end_all_aborted();
    }
    return leave_call(r);
}

static struct kernel *kernel_of(struct nccl_comm *c, void *stream)
{
    for (int k = 0; k < group.n; k++) {
        if (group.kernel[k]->c == c) {
            return group.kernel[k];
        }
    }
    struct kernel *k = calloc(1, sizeof *k);
    if (k == NULL || group.n == MAX_GROUP) {
        abort();
    }
    *k = (struct kernel){.c = c};
    k->last = &k->ops;
    group.stream[group.n] = stream;
    group.kernel[group.n++] = k;
    return k;
}

static enum nccl_result add(const char *name, struct nccl_comm *c, void *stream,
                            const struct op *what)
{
    enum nccl_result r = enter_call(name, c);
    if (r == NCCL_SUCCESS) {
        if (c != NULL && c->in_call) {
            fake_misuse("%s while another thread calls for the same communicator", name);
        }
        r = usable(name, c)                         ? NCCL_SUCCESS
            : c != NULL && c->error != NCCL_SUCCESS ? c->error
                                                    : NCCL_INVALID_ARGUMENT;
    } else {
        come_in();
    }
    if (r == NCCL_SUCCESS) {
        struct op *o = malloc(sizeof *o);
        struct kernel *k = kernel_of(c, stream);
        if (o == NULL) {
            abort();
        }
        *o = *what;
        *k->last = o;
        k->last = &o->next;
    } else {
        group.r = r;
    }
    return leave_call(group.depth == 0 ? launch(r) : r);
}

enum nccl_result ncclSend(const void *buf, size_t n, enum nccl_type t, int peer,
                          struct nccl_comm *c, void *stream)
{
    return add(__func__, c, stream,
               &(struct op){.kind = OP_SEND, .in = buf, .n = n, .type = t, .root = peer});
}

enum nccl_result ncclRecv(void *buf, size_t n, enum nccl_type t, int peer, struct nccl_comm *c,
                          void *stream)
{
    return add(__func__, c, stream,
               &(struct op){.kind = OP_RECV, .out = buf, .n = n, .type = t, .root = peer});
}

enum nccl_result ncclAllReduce(const void *in, void *out, size_t n, enum nccl_type t,
                               enum nccl_op op, struct nccl_comm *c, void *stream)
{
    return add(
        __func__, c, stream,
        &(struct op){.kind = OP_ALL_REDUCE, .in = in, .out = out, .n = n, .type = t, .op = op});
}

enum nccl_result ncclReduce(const void *in, void *out, size_t n, enum nccl_type t, enum nccl_op op,
                            int root, struct nccl_comm *c, void *stream)
{
    const struct op o = {
        .kind = OP_REDUCE, .in = in, .out = out, .n = n, .type = t, .op = op, .root = root};
    return add(__func__, c, stream, &o);
}

enum nccl_result ncclReduceScatter(const void *in, void *out, size_t n, enum nccl_type t,
                                   enum nccl_op op, struct nccl_comm *c, void *stream)
{
    return add(
        __func__, c, stream,
        &(struct op){.kind = OP_REDUCE_SCATTER, .in = in, .out = out, .n = n, .type = t, .op = op});
}

enum nccl_result ncclAllGather(const void *in, void *out, size_t n, enum nccl_type t,
                               struct nccl_comm *c, void *stream)
{
    return add(__func__, c, stream,
               &(struct op){.kind = OP_ALL_GATHER, .in = in, .out = out, .n = n, .type = t});
}

enum nccl_result ncclBroadcast(const void *in, void *out, size_t n, enum nccl_type t, int root,
                               struct nccl_comm *c, void *stream)
{
    const struct op o = {
        .kind = OP_BROADCAST, .in = in, .out = out, .n = n, .type = t, .root = root};
    return add(__func__, c, stream, &o);
}
