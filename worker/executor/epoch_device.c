#include "worker/executor/epoch_device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/layout/box.h"
#include "proto/program/pool.h"
#include "worker/executor/epoch.h"
#include "worker/executor/executor.h"
#include "worker/state/box_hash.h"
#include "worker/state/region.h"

#define ALIGN  64     /* alignment of rows in a segment */
#define LOOKS  5000   /* most checks whether the device is idle */
#define NAP_NS 200000 /* pause between two checks */

static bool has_state(const struct hsp_ex_epoch *e)
{
    return e->member && e->env->backend != NULL;
}

/* Returns true if the device is no CPU: the host cannot access the state, and work of a call goes
 * on after the call has returned. */
static bool on_device(const struct hsp_ex_epoch *e)
{
    return has_state(e) && e->env->backend->device;
}

/* ---- memory ---- */

/* Allocates host memory for the hashes of rows. */
static enum hsp_status take_words(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    size_t bytes = (size_t)e->prog.bind.n_state * sizeof *e->dev.seen;
    enum hsp_status st = b->alloc(b, HSP_MEM_HOST, bytes, (void **)&e->dev.seen, err);
    e->dev.wrote = hsp_arena_alloc(e->arena, bytes + 1);
    st = st == HSP_OK && e->dev.wrote == NULL ? hsp_err_nomem(err, "the hashes of the state") : st;
    return st != HSP_ENOMEM
               ? st
               : hsp_err_wrap(
                     err, "the host, not the device, lacks memory that can be pinned (free some)");
}

static void release_words(struct hsp_ex_epoch *e)
{
    e->env->backend->release(e->env->backend, HSP_MEM_HOST, e->dev.seen);
    e->dev.seen = NULL;
}

static void release_state(struct hsp_ex_epoch *e)
{
    struct hsp_backend *b = e->env->backend;
    b->release(b, HSP_MEM_DEVICE, e->dev.state);
    b->release(b, HSP_MEM_DEVICE, e->dev.sum);
    e->dev.state = NULL;
    e->dev.sum = NULL;
    if (e->dev.counted) {
        e->dev.counted = false;
        atomic_fetch_sub(&e->env->on_device, 1);
    }
}

static enum hsp_status take_state(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    size_t bytes = (size_t)e->prog.bind.state_bytes;
    size_t sums = (size_t)e->prog.bind.n_state * sizeof *e->dev.sum;
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, bytes, &e->dev.state, err);
    if (st == HSP_OK) {
        st = b->alloc(b, HSP_MEM_DEVICE, sums, (void **)&e->dev.sum, err);
    }
    if (st != HSP_OK) {
        release_state(e);
        return hsp_err_wrap(err, "a version of %zu bytes", bytes);
    }
    e->dev.counted = true;
    atomic_fetch_add(&e->env->on_device, 1);
    return HSP_OK;
}

/* Tries whether the memory that the engine will allocate is free now. On a CPU the kernel assigns
 * pages only when they are first touched, so the function does nothing there. */
static enum hsp_status try_rest(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    size_t bytes = (size_t)(hsp_pool_memory(&e->prog, e->shorter, e->pkg.n_shorter) +
                            hsp_pool_comm(&e->prog, e->shorter, e->pkg.n_shorter));
    void *p = NULL;
    if (!b->device) {
        return HSP_OK;
    }
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, bytes, &p, err);
    b->release(b, HSP_MEM_DEVICE, p);
    return st;
}

/* ---- pinned memory ---- */

void hsp_epoch_device_trim(void *of)
{
    struct hsp_exec_env *env = of;
    struct hsp_backend *b = env->backend;
    if (b == NULL || b->trim == NULL || pthread_mutex_trylock(&env->greets) != 0) {
        return;
    }
    bool trimmed = b->trim(b);
    (void)pthread_mutex_unlock(&env->greets);
    if (trimmed) {
        atomic_store(&env->untrimmed, false); /* first: another thread may unpin more */
        hsp_reaper_keep(env->device_reaper, false);
        hsp_pool_unpin(env);
    }
}

/* Waits until the device memory of ended epochs is freed, or @e is over. */
static void await_reaper(struct hsp_ex_epoch *e)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    while (hsp_reaper_busy(e->env->device_reaper) && !hsp_epoch_is_over(e)) {
        (void)nanosleep(&nap, NULL);
    }
}

/* Trims the device as soon as it is idle. The reaper does that, because unpinning takes long: if @e
 * ends meanwhile, this function returns at once. */
static void trim_soon(struct hsp_ex_epoch *e)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct hsp_exec_env *env = e->env;
    bool can = env->backend != NULL && env->backend->trim != NULL;
    await_reaper(e);
    for (int k = 0; can && k < LOOKS && !hsp_epoch_is_over(e); k++) {
        atomic_store(&env->untrimmed, true);
        hsp_reaper_give(env->device_reaper, &env->trim, hsp_epoch_device_trim, env);
        await_reaper(e);
        if (!atomic_load(&env->untrimmed)) {
            return;
        }
        (void)nanosleep(&nap, NULL);
    }
}

/* Pins segment @k in pieces, and stops if @e is cancelled, because tens of GiB take seconds. The
 * pieces that an earlier epoch has pinned are still pinned. */
static enum hsp_status pin(struct hsp_ex_epoch *e, int k, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    size_t bytes = hsp_segment_area_bytes(e->seg[k]) > 0 ? hsp_segment_bytes(e->seg[k]) : 0;
    size_t piece = hsp_pool_piece(e->env);
    uint8_t *map = hsp_segment_map(e->seg[k]);
    enum hsp_status st = HSP_OK;
    for (size_t at = e->dev.pinned[k]; st == HSP_OK && at < bytes && !hsp_epoch_is_cancelled(e);
         at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        st = b->pin(b, map + at, n, err);
        e->dev.pinned[k] += st == HSP_OK ? n : 0;
    }
    return st;
}

/* Pins both segments, which are mapped for writing, as pinning requires. If pinning fails, the
 * epoch goes on with slower copies. */
static void pin_segments(struct hsp_ex_epoch *e)
{
    for (int k = 0; e->env->backend->pin != NULL && k < 2; k++) {
        struct hsp_err err = {0};
        if (pin(e, k, &err) != HSP_OK && !atomic_exchange(&e->env->unpinned, true)) {
            hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                    "device %u: its state is copied through memory that is not pinned, slowly: %s",
                    e->env->device, err.msg);
        }
    }
}

void hsp_epoch_device_clear(struct hsp_ex_epoch *e)
{
    await_reaper(e);
    if (atomic_load(&e->env->on_device) == 0) {
        trim_soon(e);
    }
    hsp_reaper_keep(e->env->device_reaper, false); /* other memory is freed when an epoch ends */
    e->dev.late = hsp_pool_has_out(e->env);
}

enum hsp_status hsp_epoch_device_take(struct hsp_ex_epoch *e, bool *ret_host, struct hsp_err *err)
{
    *ret_host = false;
    if (!has_state(e)) {
        return HSP_OK;
    }
    enum hsp_status st = take_words(e, err);
    *ret_host = st == HSP_ENOMEM;
    if (st == HSP_OK && atomic_load(&e->env->on_device) == 0) {
        st = take_state(e, err);
        st = st == HSP_OK ? try_rest(e, err) : st;
        hsp_epoch_device_trim(e->env); /* transports of the next epoch need memory, too */
    }
    return st;
}

void hsp_epoch_device_pin(struct hsp_ex_epoch *e)
{
    if (on_device(e)) {
        e->dev.late = e->dev.late && hsp_pool_has_out(e->env);
        if (!e->dev.late) {
            pin_segments(e);
        }
    }
}

/* Waits for all work of HSP_DEVQ_STATE so far, and stores the ticket of this work. */
static enum hsp_status finish_queue(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    uint64_t ticket = 0;
    enum hsp_status st = b->mark(b, HSP_DEVQ_STATE, &ticket, err);
    if (st == HSP_OK) {
        st = b->finish(b, HSP_DEVQ_STATE, ticket, err);
    }
    if (st == HSP_OK) {
        (void)pthread_mutex_lock(&e->lock);
        e->dev.ticket = ticket;
        (void)pthread_mutex_unlock(&e->lock);
    }
    return st;
}

/* The state is filled with zeros, because the gaps between rows are copied together with the rows.
 * On a CPU the memory is zero already, and the kernel assigns its pages when the state is loaded,
 * most of them beside the first step. */
enum hsp_status hsp_epoch_device_begin(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    if (!e->dev.counted) { /* the last epoch has left, and this one has no work there yet */
        trim_soon(e);
    }
    if (!has_state(e)) {
        return HSP_OK;
    }
    struct hsp_backend *b = e->env->backend;
    if (e->dev.late) {
        pin_segments(e);
    }
    enum hsp_status st = e->dev.counted ? HSP_OK : take_state(e, err);
    if (st == HSP_OK && b->device) {
        st = b->fill(b, HSP_DEVQ_STATE, HSP_F32, e->dev.state, 0.0, e->prog.bind.state_bytes / 4,
                     err);
    }
    return st == HSP_OK ? finish_queue(e, err) : st;
}

/* ---- copies ---- */

static struct hsp_written newest_of(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_written w = e->dev.newest;
    (void)pthread_mutex_unlock(&e->lock);
    return w;
}

/* Copies bytes @from to @end between the state on the device and the area of segment @s. Each piece
 * of the segment's file is pinned by a call of its own, so no copy crosses the border of a
 * piece. */
static enum hsp_status copy(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                            bool to_device, int64_t from, int64_t end, struct hsp_err *err)
{
    struct hsp_backend *b = e->env->backend;
    uint8_t *state = e->dev.state, *area = hsp_segment_area(s);
    int64_t piece = (int64_t)hsp_pool_piece(e->env);
    int64_t front = area - (uint8_t *)hsp_segment_map(s); /* offset of the area in the file */
    enum hsp_status st = HSP_OK;
    for (int64_t at = from, next; st == HSP_OK && at < end; at = next) {
        if (e->seals_live && hsp_epoch_is_stopped(e)) {
            return hsp_err_set(err, HSP_ECANCELED, 0, "the epoch has ended");
        }
        next = (front + at) / piece * piece + piece - front;
        next = next < end ? next : end;
        uint8_t *to = to_device ? state + at : area + at;
        st = b->copy(b, HSP_DEVQ_STATE, to, to_device ? area + at : state + at, (size_t)(next - at),
                     err);
    }
    return st;
}

static bool belongs(const struct hsp_ex_epoch *e, const struct hsp_segment_row *r,
                    enum hsp_epoch_part part)
{
    return part == HSP_EPOCH_ALL || (r->kind == e->pkg.kinds[0]) == (part == HSP_EPOCH_WEIGHTS);
}

enum hsp_status hsp_epoch_device_load(struct hsp_ex_epoch *e, uint64_t version,
                                      enum hsp_epoch_part part, struct hsp_err *err)
{
    if (!has_state(e)) {
        return HSP_OK;
    }
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    int64_t at = 0, end = 0; /* range of adjacent rows */
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i <= hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = i < hsp_segment_n(s) ? hsp_segment_row_at(s, i) : NULL;
        if (r != NULL && !belongs(e, r, part)) {
            continue;
        }
        bool next = r != NULL && r->offset == (end + ALIGN - 1) / ALIGN * ALIGN;
        if (!next && end > at) {
            st = copy(e, s, true, at, end, err);
        }
        if (r != NULL) {
            at = next ? at : r->offset;
            end = r->offset + hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype);
        }
    }
    st = st == HSP_OK ? finish_queue(e, err) : st;
    return st == HSP_OK ? st : hsp_err_wrap(err, "version %" PRIu64 " to the device", version);
}

enum hsp_status hsp_epoch_device_save(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    if (!has_state(e)) {
        return HSP_OK;
    }
    struct hsp_backend *b = e->env->backend;
    struct hsp_state_segment *s = hsp_epoch_home_take(e, version);
    const struct hsp_written w = newest_of(e);
    HSP_ASSERT(w.version == version);
    enum hsp_status st = b->await(b, HSP_DEVQ_STATE, w.queue, w.ticket, err);
    if (st == HSP_OK) {
        st = copy(e, s, false, 0, hsp_segment_area_bytes(s), err);
        enum hsp_status done = finish_queue(e, st == HSP_OK ? err : NULL);
        st = st == HSP_OK ? done : st;
    }
    return st == HSP_OK ? st : hsp_err_wrap(err, "version %" PRIu64 " from the device", version);
}
const struct hsp_state_segment *hsp_epoch_device_loaded(struct hsp_ex_epoch *e, uint64_t version)
{
    (void)pthread_mutex_lock(&e->lock);
    const uint64_t sealed[2] = {e->first, e->sealed};
    (void)pthread_mutex_unlock(&e->lock);
    for (int k = 0; k < 2; k++) {
        const struct hsp_state_segment *s = hsp_epoch_home(e, sealed[k]);
        if (sealed[k] <= version && hsp_segment_version(s) == sealed[k]) {
            return s;
        }
    } /* the epoch has made only no-op steps */
    return NULL;
}

uint32_t hsp_epoch_device_changed(struct hsp_ex_epoch *e, uint64_t version)
{
    const struct hsp_written w = newest_of(e);
    const struct hsp_state_segment *s =
        w.first != NULL ? hsp_epoch_device_loaded(e, version) : NULL;
    bool sums = w.sums != NULL && w.before != NULL;
    if (w.version != version + 1 || (s == NULL && !sums)) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < hsp_segment_n(e->seg[0]); i++) {
        if (s != NULL ? w.first[i] != hsp_segment_row_hash(s, i)
                      : !hsp_word_sums_equal(&w.sums[i].read, &w.before[i].wrote)) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint32_t hsp_epoch_device_unlike(struct hsp_ex_epoch *e, uint64_t version)
{
    const struct hsp_written w = newest_of(e);
    const struct hsp_state_sums *want = w.version == version       ? w.sums
                                        : w.version == version + 1 ? w.before
                                                                   : NULL;
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    for (uint32_t i = 0; want != NULL && i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        const uint8_t *x = (const uint8_t *)hsp_segment_area(s) + r->offset;
        struct hsp_word_sums is = {0, 0};
        hsp_word_sums_add(&is, x, hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype) / 4,
                          0);
        if (!hsp_word_sums_equal(&is, &want[i].wrote)) {
            return i;
        }
    }
    return UINT32_MAX;
}

enum hsp_status hsp_epoch_device_compare(struct hsp_ex_epoch *e, uint64_t version,
                                         uint32_t *ret_row, struct hsp_err *err)
{
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    struct hsp_backend *b = e->env->backend;
    uint32_t n = hsp_segment_n(s);
    struct hsp_hash_call *c = calloc((size_t)n + 1, sizeof *c);
    if (c == NULL) {
        return hsp_err_nomem(err, "the hashes of the state");
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        const struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
        hsp_box_hash_call(&id, &r->box, (const uint8_t *)e->dev.state + r->offset, &c[i]);
    }
    enum hsp_status st = b->hash(b, HSP_DEVQ_STATE, c, n, e->dev.sum, err);
    if (st == HSP_OK) {
        st = b->copy(b, HSP_DEVQ_STATE, e->dev.seen, e->dev.sum, n * sizeof *e->dev.seen, err);
    }
    st = st == HSP_OK ? finish_queue(e, err) : st;
    *ret_row = UINT32_MAX;
    for (uint32_t i = n; st == HSP_OK && i-- > 0;) {
        *ret_row = e->dev.seen[i] != hsp_segment_row_hash(s, i) ? i : *ret_row;
    }
    free(c);
    return st == HSP_OK ? st : hsp_err_wrap(err, "version %" PRIu64 " on the device", version);
}

enum hsp_status hsp_epoch_device_await(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    if (!has_state(e)) {
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&e->lock);
    uint64_t ticket = e->dev.ticket;
    (void)pthread_mutex_unlock(&e->lock);
    return e->env->backend->finish(e->env->backend, HSP_DEVQ_STATE, ticket, err);
}

/* ---- the end ---- */

void hsp_epoch_device_leave(struct hsp_ex_epoch *e)
{
    struct hsp_backend *b = e->env->backend;
    if (has_state(e)) { /* a failed device has no work under way */
        (void)b->finish(b, HSP_DEVQ_STATE, e->dev.ticket, NULL);
        hsp_engine_retire(e->engine);
        release_words(e);
        release_state(e);
    }
}

void hsp_epoch_device_close(struct hsp_ex_epoch *e)
{
    if (has_state(e)) {
        atomic_store(&e->env->untrimmed, true);
        (void)hsp_epoch_device_await(e, NULL);
        release_words(e);
        release_state(e);
    }
}

void hsp_epoch_device_check(struct hsp_exec_env *env)
{
    struct hsp_backend *b = env->backend;
    struct hsp_err why = {0};
    void *p = NULL;
    if (b == NULL || !b->device) {
        return;
    }
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, ALIGN, &p, &why);
    if (st == HSP_OK) {
        b->release(b, HSP_MEM_DEVICE, p);
    } else if (st != HSP_ENOMEM) {
        while (atomic_exchange(&env->failed, true)) { /* another thread ends the process */
            (void)pause();
        }
        hsp_log(env->log, HSP_LOG_ERROR, "executor",
                "device %u has failed: %s: this executor ends and another one continues from the "
                "versions in %s",
                env->device, why.msg, env->state_dir);
        hsp_nccllog_tell(env->nccl_log, env->log);
        _exit(HSP_EXIT_DEVICE);
    }
}
