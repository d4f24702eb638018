#include "tests/unit/worker/executor/damage_world.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/executor/damage_way.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_export.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_restore.h"
#include "worker/executor/epoch_transfer.h"
#include "worker/executor/replica_check.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

static const char plan_two[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 4, "
    "micro_batches: 2, stages: [{layers: 3, ranks: [0]}]}, {sequences: 2, "
    "micro_batches: 1, stages: [{layers: 3, ranks: [1]}]}]}";
static const char plan_three[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 2, "
    "stages: [{layers: 3, ranks: [0]}]}, {sequences: 2, stages: [{layers: "
    "3, ranks: [1]}]}, {sequences: 2, stages: [{layers: 3, ranks: [2]}]}]}";
static const char plan_cut[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 3, "
    "stages: [{layers: 3, ranks: [0]}]}, {sequences: 3, stages: [{layers: "
    "3, ranks: [1, 2], tensor: [1, 1]}]}]}";
static const char *const plans[N_LAYOUTS] = {
    [DP] = xw_plan_dp, [PP] = xw_plan_pp, [TWO] = plan_two, [THREE] = plan_three, [CUT] = plan_cut};

/* Memory shared with the executors: the one scheduled damage, which device @dev does at
 * @version. */
static struct board {
    atomic_uint when, dev;
    atomic_ullong version;
    atomic_uint owner; /* owner of the part to damage; NOBODY, TWIN: the home */
    atomic_uint which;
    atomic_uint done;
    atomic_ullong salt;
    atomic_ullong told; /* epoch of the newest step that rank 0 reported */
} * board;

static bool is_one(const struct hsp_segment_row *r, enum dw_which which)
{
    const struct hsp_box whole = hsp_box_whole(r->box.rank, r->full);
    bool weights = which == WEIGHTS || which == ALL_WEIGHTS || which == LOUD;
    bool cut = which == OWNED || which == WEIGHTS || which == LOUD;
    return (which != LOUD || r->box.rank > 1) && !hsp_box_empty(&r->box) &&
           (!cut || !hsp_box_equal(&r->box, &whole)) && (!weights || r->kind == HSP_STATE_PARAM);
}

/* Chooses a bit of an element of segment @s. Returns the offset of its byte; *ret_bit: the mask of
 * the bit. */
static int64_t choose(const struct hsp_state_segment *s, enum dw_which which, const char *name,
                      uint64_t k, uint8_t *ret_bit)
{
    const struct hsp_segment_row *r;
    k += atomic_load(&board->salt) << 16;
    do {
        r = hsp_segment_row_at(
            s, (uint32_t)hsp_test_range(name, k++, 0, (int64_t)hsp_segment_n(s) - 1));
    } while (!is_one(r, which));
    int64_t bytes = hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype);
    int64_t size = (int64_t)hsp_dtype_size(r->dtype), at = hsp_test_range(name, k, 0, bytes - 1);
    at += at % size < size / 4 ? size / 4 : 0; /* not a bit that an update may round away */
    *ret_bit = (uint8_t)(1u << k % 8);
    if (which == LOUD) { /* in FP64 this changes the number by 1/16 to 1/2 */
        at += size - 2 - at % size;
        *ret_bit = (uint8_t)(1u << k % 4);
    }
    return r->offset + at;
}

struct hsp_state_segment *dw_open_piece(const char *dir, uint64_t plan, uint32_t owner,
                                        uint64_t version)
{
    struct hsp_segment_info *info = NULL;
    struct hsp_state_segment *s = NULL;
    size_t n = 0;
    struct hsp_err err = {0};
    assert_ok(hsp_segment_scan(dir, &info, &n, &err), &err);
    for (size_t i = 0; s == NULL && i < n; i++) {
        struct hsp_segname name;
        if (info[i].status == HSP_OK && info[i].version == version &&
            hsp_segname_parse(&info[i].key, &name) && name.plan == plan && name.owner == owner) {
            assert_ok(hsp_segment_open(dir, &info[i].key, true, &s, &err), &err);
        }
    }
    free(info);
    return s;
}

void dw_flip_piece(const char *dir, uint64_t plan, uint32_t owner, uint64_t version,
                   enum dw_which which)
{
    struct hsp_state_segment *s = dw_open_piece(dir, plan, owner, version);
    assert_non_null(s);
    uint8_t bit;
    int64_t at = choose(s, which, "flip", version * 16 + owner, &bit);
    ((uint8_t *)hsp_segment_area(s))[at] ^= bit;
    (void)hsp_segment_close(s);
}

/* Returns the number of the device of this executor. */
static unsigned device_of(const struct hsp_ex_epoch *e)
{
    return (unsigned)(e->env->node[1] - '0');
}

/* Returns true if this executor is to damage its state now. */
static bool is_due(const struct hsp_ex_epoch *e, enum dw_when when, uint64_t version)
{
    bool due = atomic_load(&board->when) == when && atomic_load(&board->dev) == device_of(e) &&
               atomic_load(&board->version) <= version && atomic_exchange(&board->done, 1) == 0;
    if (due) {
        atomic_store(&board->version, version);
    }
    return due;
}

static void harm(const struct hsp_ex_epoch *e, enum dw_when when, uint64_t plan, uint64_t version)
{
    unsigned owner = atomic_load(&board->owner);
    if (is_due(e, when, version)) {
        dw_flip_piece(e->env->state_dir, plan, owner == NOBODY ? e->p->rank : owner, version,
                      (enum dw_which)atomic_load(&board->which));
    }
}

/* If the damage is due, damages device memory instead of the segment; @saved: damages both. */
static bool harm_live(const struct hsp_ex_epoch *e, enum dw_when when, uint64_t version, bool saved)
{
    bool due = is_due(e, when, version);
    if (due) {
        struct hsp_state_segment *s = hsp_epoch_home(e, version);
        uint8_t bit, *area = hsp_segment_area(s);
        int64_t at = choose(s, (enum dw_which)atomic_load(&board->which), "live", version, &bit);
        uint8_t *byte = (uint8_t *)e->dev.state + at;
        *(e->env->backend->device ? hsp_mockdev_byte(e->env->backend, byte) : byte) ^= bit;
        area[at] ^= saved ? bit : 0;
    }
    return due;
}

/* These declarations make the compiler check that each wrap has the type of its function. */
#define WRAPS(name) __typeof__(name) __real_##name, __wrap_##name
WRAPS(hsp_epoch_copy_version);
WRAPS(hsp_epoch_fetch_weights);
WRAPS(hsp_epoch_checkpoint);
WRAPS(hsp_epoch_write_final);
WRAPS(hsp_epoch_await_confirmed);
WRAPS(hsp_replica_check_seal);
WRAPS(hsp_epoch_device_load);
WRAPS(hsp_epoch_report_step);
WRAPS(hsp_epoch_restore);

enum hsp_status __wrap_hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                              struct hsp_err *err)
{
    (void)harm_live(e, AT_COPIES, version, false);
    harm(e, AT_COPIED, e->p->plan, version);
    dw_way_watch(e, HSP_MESH_STATE, device_of(e));
    return __real_hsp_epoch_copy_version(e, version, err);
}

enum hsp_status __wrap_hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                                 struct hsp_err *err)
{
    enum hsp_status st = __real_hsp_epoch_await_confirmed(e, version, err);
    (void)harm_live(e, AT_VOTE, version, false);
    return st;
}

enum hsp_status __wrap_hsp_epoch_device_load(struct hsp_ex_epoch *e, uint64_t version,
                                             enum hsp_epoch_part part, struct hsp_err *err)
{
    enum hsp_status st = __real_hsp_epoch_device_load(e, version, part, err);
    (void)harm_live(e, AT_LOAD, version, false);
    return st;
}

/* Waits until rank 0 has reported a step of epoch @number. If that never happens, the test fails
 * elsewhere. */
static void await_told(uint64_t number)
{
    int64_t until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000;
    while (atomic_load(&board->told) < number && hsp_clock_ns() < until) {
        (void)usleep(1000);
    }
}

static atomic_bool leaving; /* this step is the last step of its epoch */
void __wrap_hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                  const struct hsp_vote_record *all, uint32_t n, double seconds,
                                  uint32_t sequence)
{
    leaving = v->armed != 0;
    if (leaving) {
        (void)harm_live(e, AT_LAST_READ, v->step, false);
    }
    (void)harm_live(e, AT_READ, v->step, false);
    __real_hsp_epoch_report_step(e, v, all, n, seconds, sequence);
    if (e->p->rank == 0) {
        atomic_store(&board->told, e->number);
    } else if (atomic_load(&board->when) == AT_LOAD && atomic_load(&board->dev) == device_of(e) &&
               atomic_load(&board->done) != 0) {
        await_told(e->number); /* else the end of this epoch would abort the vote of others */
    }
}

enum hsp_status __wrap_hsp_replica_check_seal(struct hsp_ex_epoch *e, uint64_t version,
                                              const uint64_t *wrote, struct hsp_err *err)
{
    (void)harm_live(e, AT_SEAL, version, true);
    bool computed = harm_live(e, AT_UPDATE, version, true) ||
                    (leaving && harm_live(e, AT_LEAVING, version, true));
    return __real_hsp_replica_check_seal(e, version, computed ? NULL : wrote, err);
}

enum hsp_status __wrap_hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                               struct hsp_err *err)
{
    harm(e, e->p->mode == HSP_MODE_SWITCH ? AT_SWITCH : AT_RECOVERY, e->p->from_plan, version);
    dw_way_watch(e, HSP_MESH_MOVE, device_of(e));
    return __real_hsp_epoch_fetch_weights(e, version, err);
}

enum hsp_status __wrap_hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                            struct hsp_err *err)
{
    harm(e, AT_CHECKPOINT, e->p->plan, version);
    dw_way_watch(e, HSP_MESH_STATE, device_of(e));
    return __real_hsp_epoch_checkpoint(e, version, ret, ret_disk, err);
}

enum hsp_status __wrap_hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                             struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                             struct hsp_err *err)
{
    harm(e, AT_END, e->p->plan, e->p->steps);
    dw_way_watch(e, HSP_MESH_DATA, device_of(e));
    return __real_hsp_epoch_write_final(e, metrics, faults, ret_epoch, err);
}

enum hsp_status __wrap_hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version,
                                         struct hsp_err *err)
{
    dw_way_watch(e, HSP_MESH_STATE, device_of(e));
    return __real_hsp_epoch_restore(e, version, err);
}

void dw_plan_harm(enum dw_when when, unsigned dev, uint64_t version, unsigned owner)
{
    atomic_store(&board->dev, dev);
    atomic_store(&board->version, version);
    atomic_store(&board->owner, owner);
    atomic_store(&board->which, when == AT_END ? WEIGHTS : owner == NOBODY ? OWNED : ANY);
    if (owner == TWIN) {
        atomic_store(&board->which, ANY);
    }
    atomic_store(&board->done, 0);
    atomic_store(&board->when, when);
}

void dw_plan_harm_in(enum dw_when when, unsigned dev, uint64_t version, enum dw_which which)
{
    dw_plan_harm(NEVER, dev, version, NOBODY);
    atomic_store(&board->which, which);
    atomic_store(&board->when, when);
}

bool dw_harmed(uint64_t *ret_version)
{
    bool done = atomic_load(&board->done) != 0;
    *ret_version = done ? atomic_load(&board->version) : *ret_version;
    return done;
}

void dw_salt(uint64_t salt)
{
    atomic_store(&board->salt, salt);
}

/* ---- the part of a coordinator ---- */

/* Losses of one undisturbed device, used by all scenarios. */
static double loss[XW_STEPS], val[XW_STEPS];

struct dw_scenario dw_play_scenario(struct xw_world *w)
{
    static bool known;
    struct dw_scenario s = {.w = w};
    if (!known) {
        xw_reference(w, loss, val);
        known = true;
    }
    for (enum dw_layout l = DP; l < KEPT; l++) {
        s.plan[l] = xw_make_plan(w, plans[l]);
    }
    s.plan[KEPT] = xw_make_kept_plan(w, plan_two);
    dw_plan_harm(NEVER, 0, 0, NOBODY);
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    return s;
}

int dw_ranks_of(const struct dw_scenario *s)
{
    return (int)s->plan[s->layout]->plan->n_ranks;
}

static void note_break(struct dw_scenario *s, const struct hsp_msg *m)
{
    bool now =
        m->epoch == s->epoch || m->epoch + 1 == s->epoch; /* in a switch also of the epoch before */
    if (now && !s->broken) {
        s->broken = true;
        s->broke_at = s->w->stable;
    }
}

static void note_checkpoint(struct dw_scenario *s, const struct hsp_msg *m)
{
    if (!m->u.ckpt.complete) {
        s->w->n_unwritten++;
        return;
    }
    assert_true(s->n_ckpt < DW_CKPTS);
    s->ckpt[s->n_ckpt] = (struct dw_ckpt){m->u.ckpt, m->epoch};
    s->ckpt[s->n_ckpt++].m.reason = NULL;
}

static int replica_holders_of(const struct dw_scenario *s)
{
    return s->layout == KEPT ? 1 : 0;
}

static int peers_of(const struct dw_scenario *s)
{
    return dw_ranks_of(s) + replica_holders_of(s);
}

/* Evaluates the last message, from device @dev, and counts reports of damage. Returns the type of
 * the message. */
static uint16_t note(struct dw_scenario *s, int dev)
{
    const struct hsp_msg *m = &s->w->last;
    if (m->type == HSP_MSG_STATE_DAMAGED && m->u.damaged.given_up_in != 0) {
        assert_true(m->u.damaged.given_up_in <= s->epoch);
        s->void_from = m->u.damaged.version;
        s->void_plan = (enum dw_layout)m->u.damaged.plan;
        s->n_given_up++;
    } else if (m->type == HSP_MSG_STATE_DAMAGED) {
        s->told = m->u.damaged;
        (void)snprintf(s->part, sizeof s->part, "%s", m->u.damaged.part);
        s->n_told++;
        s->n_told_live += m->u.damaged.live;
    } else if (m->type == HSP_MSG_PEER_LOST) {
        (void)snprintf(s->broke[dev], sizeof s->broke[dev], "%s", m->u.lost.reason);
        note_break(s, m);
    } else if (m->type == HSP_MSG_CKPT_REFUSED) {
        (void)snprintf(s->refused, sizeof s->refused, "%s", m->u.refused.reason);
        note_break(s, m);
    } else if (m->type == HSP_MSG_JOB_FAILED) {
        fail_msg("device %d: %s", dev, m->u.jobfail.reason);
    } else if (m->type == HSP_MSG_CHECKPOINTED) {
        note_checkpoint(s, m);
    } else if (m->type == HSP_MSG_FINISHED) {
        s->w->finished = true;
    }
    return m->type;
}

bool dw_hear(struct dw_scenario *s, int dev, int ms)
{
    bool came = xw_next_msg(s->w, dev, ms);
    if (came) {
        (void)note(s, dev);
    }
    return came;
}

static uint16_t hear(struct dw_scenario *s, int dev)
{
    assert_true(xw_next_msg(s->w, dev, XW_WAIT_MS));
    return note(s, dev);
}

void dw_await_msg(struct dw_scenario *s, int dev, uint16_t type)
{
    int64_t last = hsp_clock_ns(), until = last + 3 * (int64_t)XW_WAIT_MS * 1000000;
    uint16_t got;
    while ((got = hear(s, dev)) != type) {
        last = got != HSP_MSG_HEARTBEAT ? hsp_clock_ns() : last; /* heartbeats never end */
        if (hsp_clock_ns() - last > (int64_t)XW_WAIT_MS * 1000000 || hsp_clock_ns() > until) {
            fail_msg("device %d: no %s in time", dev, hsp_msg_name(type));
        }
    }
}

void dw_begin(struct dw_scenario *s, enum dw_layout layout, uint64_t step)
{
    s->layout = layout;
    s->epoch = 11;
    struct xw_epoch d = {.epoch = 11,
                         .plan_no = layout,
                         .mode = HSP_MODE_FRESH,
                         .plan = s->plan[layout],
                         .n_peers = peers_of(s),
                         .n_keepers = replica_holders_of(s)};
    xw_prepare(s->w, &d);
    for (int i = 0; i < d.n_peers; i++) {
        xw_send_start(s->w, i, 11, 0);
    }
    if (step > 0) {
        xw_await_step(s->w, 0, step);
    }
}

void dw_kill_all(struct dw_scenario *s)
{
    for (int i = 0; i < 3; i++) {
        xw_end(&s->w->ex[i]);
    }
    for (int i = 0; i < 3; i++) {
        xw_start_executor(s->w, i);
    }
}

uint64_t dw_void_from(const struct dw_scenario *s, enum dw_layout layout)
{
    return s->void_plan == layout ? s->void_from : UINT64_MAX;
}

uint32_t dw_scan(struct dw_scenario *s, enum dw_layout layout, struct hsp_state_piece ret[64])
{
    uint32_t m = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct hsp_m_holding *held = NULL;
        uint32_t n = 0;
        struct hsp_err err = {0};
        assert_ok(hsp_segname_scan(s->w->ex[i].state_dir, &held, &n, &err), &err);
        for (uint32_t k = 0; k < n; k++) {
            if (held[k].plan == (uint64_t)layout && held[k].version < dw_void_from(s, layout)) {
                assert_true(m < 64);
                ret[m++] = (struct hsp_state_piece){HSP_DEVICE(i, 0u), held[k].plan,
                                                    held[k].version, held[k].rank, held[k].owner};
            }
        }
        free(held);
    }
    return m;
}

uint64_t dw_newest(struct dw_scenario *s, enum dw_layout layout)
{
    struct hsp_state_piece held[64];
    uint64_t version = 0;
    uint32_t n = dw_scan(s, layout, held);
    assert_true(hsp_recover_version(&s->plan[layout]->info, held, n, &version));
    return version;
}

int dw_buddy_of(const struct dw_scenario *s, uint32_t owner)
{
    const struct hsp_state_table *t = &s->plan[s->layout]->copies;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->row[i].from == owner) {
            return (int)t->row[i].to;
        }
    }
    fail_msg("rank %u has no replica peer", owner);
    return 0;
}

uint64_t dw_newest_copied(struct dw_scenario *s, enum dw_layout layout, uint32_t owner)
{
    uint64_t version = dw_newest(s, layout);
    const char *there = s->w->ex[dw_buddy_of(s, owner)].state_dir;
    struct hsp_state_segment *copy = dw_open_piece(there, layout, owner, version);
    struct hsp_err err = {0};
    if (copy == NULL) {
        const char *here = s->w->ex[owner].state_dir;
        struct hsp_state_segment *home = dw_open_piece(here, layout, owner, version);
        assert_non_null(home);
        assert_ok(hsp_segment_remove(here, hsp_segment_key_of(home), &err), &err);
        (void)hsp_segment_close(home);
        version = dw_newest(s, layout);
        copy = dw_open_piece(there, layout, owner, version);
    }
    assert_non_null(copy);
    (void)hsp_segment_close(copy);
    return version;
}

bool dw_all_ready(struct dw_scenario *s, int n)
{
    bool ready = true;
    for (int i = 0; i < n; i++) {
        uint16_t type;
        do {
            type = hear(s, i);
        } while (type != HSP_MSG_READY && type != HSP_MSG_PREPARE_FAILED);
        if (type == HSP_MSG_PREPARE_FAILED) {
            const struct hsp_m_failed *f = &s->w->last.u.failed;
            if (f->fact != HSP_FACT_NO_STATE) {
                fail_msg("device %d: %s", i, f->reason);
            }
            s->n_refused++;
            ready = false;
        }
    }
    return ready;
}

void dw_prepare_switch(struct dw_scenario *s, enum dw_layout to)
{
    s->epoch = 12;
    struct xw_epoch d = xw_go_on(12, HSP_MODE_SWITCH, (struct xw_layout){to, s->plan[to]},
                                 (struct xw_layout){s->layout, s->plan[s->layout]}, 2);
    xw_send_prepare(s->w, &d);
    assert_true(dw_all_ready(s, 3));
}

void dw_arm(struct dw_scenario *s)
{
    xw_send_ref(s->w, 0, HSP_MSG_ARM, 12);
    xw_send_ref(s->w, 1, HSP_MSG_ARM, 12);
}

void dw_assert_void(struct dw_scenario *s)
{
    struct hsp_state_piece held[64];
    uint64_t from = dw_void_from(s, s->layout);
    s->void_plan = NO_LAYOUT;
    for (uint32_t n = dw_scan(s, s->layout, held), i = 0; i < n; i++) {
        assert_true(held[i].version < from);
    }
}

uint64_t dw_recover(struct dw_scenario *s, enum dw_layout layout)
{
    struct xw_epoch d;
    s->layout = layout;
    int n = peers_of(s);
    do {
        struct hsp_state_piece held[64];
        uint32_t n_held = dw_scan(s, layout, held);
        uint64_t version = dw_newest(s, layout);
        d = (struct xw_epoch){.epoch = s->epoch += 2,
                              .plan_no = layout,
                              .from_no = layout,
                              .mode = HSP_MODE_RECOVER,
                              .step = version,
                              .void_from = dw_void_from(s, layout) + 1,
                              .plan = s->plan[layout],
                              .from = s->plan[layout],
                              .n_peers = n,
                              .n_keepers = replica_holders_of(s)};
        for (uint32_t i = 0; i < n_held; i++) {
            if (held[i].version == version && d.n_live < 8) {
                d.live[d.n_live++] = (struct hsp_prepare_source){HSP_DEVICE_NODE(held[i].device),
                                                                 held[i].rank, held[i].owner};
            }
        }
        xw_send_prepare(s->w, &d);
    } while (!dw_all_ready(s, n));
    dw_assert_void(s);
    for (int i = 0; i < n; i++) {
        xw_send_start(s->w, i, d.epoch, d.step);
    }
    return d.step;
}

void dw_await_break(struct dw_scenario *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->broke[i][0] = '\0';
        dw_await_msg(s, i, HSP_MSG_PEER_LOST);
    }
    for (int i = 0; i < n; i++) {
        xw_send_ref(s->w, i, HSP_MSG_SEAL, s->epoch);
        dw_await_msg(s, i, HSP_MSG_SEALED);
    }
}

bool dw_broke_with(const struct dw_scenario *s, const char *what)
{
    bool found = false;
    for (int i = 0; i < XW_MAX_DEV; i++) {
        found = found || strstr(s->broke[i], what) != NULL;
    }
    return found;
}

void dw_free_plans(struct dw_scenario *s)
{
    for (enum dw_layout l = DP; l < N_LAYOUTS; l++) {
        (void)hsp_epoch_plan_free(s->plan[l]);
    }
}

void dw_assert_undisturbed(const struct dw_scenario *s)
{
    xw_assert_same(loss, s->w->loss);
    xw_assert_same(val, s->w->val);
}

void dw_end_scenario(struct dw_scenario *s)
{
    while (!s->w->finished) {
        (void)hear(s, 0);
    }
    dw_assert_undisturbed(s);
    dw_free_plans(s);
}

int dw_setup(void **state)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    dw_way_begin();
    return xw_setup(state);
}

int dw_setup_device(void **state)
{
    int rc = dw_setup(state);
    struct xw_world *w = *state;
    w->device = true;
    for (int i = 0; i < XW_MAX_DEV; i++) {
        w->mockdev[i].must_pin = true;
    }
    return rc;
}

int dw_teardown(void **state)
{
    (void)munmap(board, sizeof *board);
    dw_way_end();
    return xw_teardown(state);
}
