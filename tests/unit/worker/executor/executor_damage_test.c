/* State that was damaged, wherever it lies: at rest in a segment or a copy, in a segment that is in use, on its way to
 * another device, before it goes into a file. It is told, deleted and never used: what goes on from another owner has
 * the losses of one undisturbed device. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/cluster/recover.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_export.h"
#include "worker/executor/epoch_transfer.h"
#include "worker/executor/epoch_verify.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

#define NOBODY 99u

/* Two data parallel, each with half of the optimizer; a pipeline of three. */
enum layout { DP = 1, PP = 2 };

/* When an executor damages a segment of its own. */
enum when { NEVER, AT_COPIES, AT_SWITCH, AT_RECOVERY, AT_CHECKPOINT, AT_END };

/* Shared with the executors: one damage, by device @dev, at @version. */
static struct board {
    atomic_uint when, dev;
    atomic_ullong version;
    atomic_uint owner; /* whose part it is; NOBODY: its own home */
    atomic_uint which;
    atomic_uint done;
} * board;

/* Which rows may be damaged: all; those that no other rank has; the weights among these. */
enum which { ANY, OWNED, WEIGHTS };

static bool is_one(const struct hsp_segment_row *r, enum which which)
{
    const struct hsp_box whole = hsp_box_whole(r->box.rank, r->full);
    return !hsp_box_empty(&r->box) && (which == ANY || !hsp_box_equal(&r->box, &whole)) &&
           (which != WEIGHTS || r->kind == HSP_STATE_PARAM);
}

/* Flips a bit of @s, in an element of some row. */
static void flip(struct hsp_state_segment *s, enum which which, const char *name, uint64_t k)
{
    const struct hsp_segment_row *r;
    do {
        r = hsp_segment_row_at(
            s, (uint32_t)hsp_test_range(name, k++, 0, (int64_t)hsp_segment_n(s) - 1));
    } while (!is_one(r, which));
    uint8_t *data = (uint8_t *)hsp_segment_area(s) + r->offset;
    int64_t bytes = hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype);
    data[hsp_test_range(name, k, 0, bytes - 1)] ^= (uint8_t)(1u << k % 8);
}

/* The segment of @dir with @owner's part of layout @plan at @version; NULL: there is none. */
static struct hsp_state_segment *open_piece(const char *dir, uint64_t plan, uint32_t owner,
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

static void flip_piece(const char *dir, uint64_t plan, uint32_t owner, uint64_t version,
                       enum which which)
{
    struct hsp_state_segment *s = open_piece(dir, plan, owner, version);
    assert_non_null(s);
    flip(s, which, "flip", version * 16 + owner);
    (void)hsp_segment_close(s);
}

/* In an executor: it is now. */
static void harm(const struct hsp_ex_epoch *e, enum when when, uint64_t plan, uint64_t version)
{
    unsigned dev = (unsigned)(e->env->node[1] - '0'), owner = atomic_load(&board->owner);
    if (atomic_load(&board->when) != when || atomic_load(&board->dev) != dev ||
        atomic_load(&board->version) > version || atomic_exchange(&board->done, 1) != 0) {
        return;
    }
    atomic_store(&board->version, version);
    flip_piece(e->env->state_dir, plan, owner == NOBODY ? e->p->rank : owner, version,
               (enum which)atomic_load(&board->which));
}

enum hsp_status __real_hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                              struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                              struct hsp_err *err);
enum hsp_status __real_hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                               struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                               struct hsp_err *err);
enum hsp_status __real_hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                            struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                            struct hsp_err *err);
enum hsp_status __real_hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                             uint64_t *ret_epoch, struct hsp_err *err);
enum hsp_status __wrap_hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                             uint64_t *ret_epoch, struct hsp_err *err);

enum hsp_status __wrap_hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                              struct hsp_err *err)
{
    harm(e, AT_COPIES, e->p->plan, version);
    return __real_hsp_epoch_copy_version(e, version, err);
}

enum hsp_status __wrap_hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                               struct hsp_err *err)
{
    harm(e, e->p->mode == HSP_MODE_SWITCH ? AT_SWITCH : AT_RECOVERY, e->p->from_plan, version);
    return __real_hsp_epoch_fetch_weights(e, version, err);
}

enum hsp_status __wrap_hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                            struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                            struct hsp_err *err)
{
    harm(e, AT_CHECKPOINT, e->p->plan, version);
    return __real_hsp_epoch_checkpoint(e, version, ret, ret_disk, err);
}

enum hsp_status __wrap_hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                             uint64_t *ret_epoch, struct hsp_err *err)
{
    harm(e, AT_END, e->p->plan, e->p->steps);
    return __real_hsp_epoch_write_final(e, metrics, ret_epoch, err);
}

static void plan_harm(enum when when, unsigned dev, uint64_t version, unsigned owner)
{
    atomic_store(&board->dev, dev);
    atomic_store(&board->version, version);
    atomic_store(&board->owner, owner);
    atomic_store(&board->which, when == AT_END ? WEIGHTS : owner == NOBODY ? OWNED : ANY);
    atomic_store(&board->done, 0);
    atomic_store(&board->when, when);
}

/* ---- what a coordinator does ---- */

struct story {
    struct xw_world *w;
    struct hsp_epoch_plan *plan[3];           /* by layout */
    uint64_t epoch;                           /* the newest */
    enum layout layout;                       /* that it has */
    uint32_t n_told, n_told_live;             /* STATE_DAMAGED */
    struct hsp_m_damaged told;                /* the last one */
    char part[256];                           /* of it */
    uint32_t n_refused;                       /* PREPARE_FAILED for want of state */
    char broke[XW_MAX_DEV][HSP_TEXT_MAX + 1]; /* reasons of the last PEER_LOST of each device */
};

/* Of one undisturbed device: the same for all stories. */
static double loss[XW_STEPS], val[XW_STEPS];

static struct story tell_story(struct xw_world *w)
{
    static bool known;
    struct story s = {.w = w};
    if (!known) {
        xw_reference(w, loss, val);
        known = true;
    }
    s.plan[DP] = xw_make_plan(w, xw_plan_dp);
    s.plan[PP] = xw_make_plan(w, xw_plan_pp);
    plan_harm(NEVER, 0, 0, NOBODY);
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    return s;
}

static int ranks_of(const struct story *s)
{
    return (int)s->plan[s->layout]->plan->n_ranks;
}

/* The next message of device @dev; what it says of damage is counted. */
static uint16_t hear(struct story *s, int dev)
{
    assert_true(xw_next_msg(s->w, dev, XW_WAIT_MS));
    const struct hsp_msg *m = &s->w->last;
    if (m->type == HSP_MSG_STATE_DAMAGED) {
        s->told = m->u.damaged;
        (void)snprintf(s->part, sizeof s->part, "%s", m->u.damaged.part);
        s->n_told++;
        s->n_told_live += m->u.damaged.live;
    } else if (m->type == HSP_MSG_PEER_LOST) {
        (void)snprintf(s->broke[dev], sizeof s->broke[dev], "%s", m->u.lost.reason);
    } else if (m->type == HSP_MSG_FINISHED) {
        s->w->finished = true;
    }
    return m->type;
}

static void await_msg(struct story *s, int dev, uint16_t type)
{
    int64_t until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000; /* heartbeats never end */
    while (hear(s, dev) != type) {
        if (hsp_clock_ns() > until) {
            fail_msg("device %d: no %s in time", dev, hsp_msg_name(type));
        }
    }
}

/* Epoch 11, fresh, until step @step. */
static void begin(struct story *s, enum layout layout, uint64_t step)
{
    s->layout = layout;
    s->epoch = 11;
    struct xw_epoch d = {.epoch = 11,
                         .plan_no = layout,
                         .mode = HSP_MODE_FRESH,
                         .plan = s->plan[layout],
                         .n_peers = ranks_of(s)};
    xw_prepare(s->w, &d);
    for (int i = 0; i < d.n_peers; i++) {
        xw_send_start(s->w, i, 11, 0);
    }
    if (step > 0) {
        xw_await_step(s->w, 0, step);
    }
}

static void kill_all(struct story *s)
{
    for (int i = 0; i < 3; i++) {
        xw_end(&s->w->ex[i]);
    }
    for (int i = 0; i < 3; i++) {
        xw_start_executor(s->w, i);
    }
}

/* The pieces of layout @layout on devices 0 to 2. */
static uint32_t scan(struct story *s, enum layout layout, struct hsp_state_piece ret[64])
{
    uint32_t m = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct hsp_m_holding *held = NULL;
        uint32_t n = 0;
        struct hsp_err err = {0};
        assert_ok(hsp_segname_scan(s->w->ex[i].state_dir, &held, &n, &err), &err);
        for (uint32_t k = 0; k < n; k++) {
            if (held[k].plan == (uint64_t)layout) {
                assert_true(m < 64);
                ret[m++] = (struct hsp_state_piece){HSP_DEVICE(i, 0u), held[k].plan,
                                                    held[k].version, held[k].rank, held[k].owner};
            }
        }
        free(held);
    }
    return m;
}

static uint64_t newest(struct story *s, enum layout layout)
{
    struct hsp_state_piece held[64];
    uint64_t version = 0;
    uint32_t n = scan(s, layout, held);
    assert_true(hsp_recover_version(&s->plan[layout]->info, held, n, &version));
    return version;
}

/* All answers to a PREPARE: true when all are READY. */
static bool all_ready(struct story *s, int n)
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

/* Goes on from the newest version that is whole in @layout, in the same layout; tries again when one of them lacks what
 * it was to have. Returns the version. */
static uint64_t recover(struct story *s, enum layout layout)
{
    int n = (int)s->plan[layout]->plan->n_ranks;
    struct xw_epoch d;
    s->layout = layout;
    do {
        struct hsp_state_piece held[64];
        uint32_t n_held = scan(s, layout, held);
        uint64_t version = newest(s, layout);
        d = (struct xw_epoch){.epoch = s->epoch += 2,
                              .plan_no = layout,
                              .from_no = layout,
                              .mode = HSP_MODE_RECOVER,
                              .step = version,
                              .plan = s->plan[layout],
                              .from = s->plan[layout],
                              .n_peers = n};
        for (uint32_t i = 0; i < n_held; i++) {
            if (held[i].version == version && d.n_live < 8) {
                d.live[d.n_live++] = (struct hsp_prepare_source){HSP_DEVICE_NODE(held[i].device),
                                                                 held[i].rank, held[i].owner};
            }
        }
        xw_send_prepare(s->w, &d);
    } while (!all_ready(s, n));
    for (int i = 0; i < n; i++) {
        xw_send_start(s->w, i, d.epoch, d.step);
    }
    return d.step;
}

/* The epoch breaks: all are sealed. */
static void await_break(struct story *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->broke[i][0] = '\0';
        await_msg(s, i, HSP_MSG_PEER_LOST);
    }
    for (int i = 0; i < n; i++) {
        xw_send_ref(s->w, i, HSP_MSG_SEAL, s->epoch);
        await_msg(s, i, HSP_MSG_SEALED);
    }
}

static bool broke_with(const struct story *s, const char *what)
{
    bool found = false;
    for (int i = 0; i < XW_MAX_DEV; i++) {
        found = found || strstr(s->broke[i], what) != NULL;
    }
    return found;
}

static void end_story(struct story *s)
{
    while (!s->w->finished) {
        (void)hear(s, 0);
    }
    xw_assert_same(loss, s->w->loss);
    xw_assert_same(val, s->w->val);
    (void)hsp_epoch_plan_free(s->plan[DP]);
    (void)hsp_epoch_plan_free(s->plan[PP]);
}

/* The device that keeps a copy of rank @owner's part, and not its own. */
static int buddy_of(const struct story *s, uint32_t owner)
{
    const struct hsp_state_table *t = &s->plan[s->layout]->copies;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->row[i].from == owner) {
            return (int)t->row[i].to;
        }
    }
    fail_msg("rank %u has no buddy", owner);
    return 0;
}

/* ---- at rest ---- */

static void test_a_home_at_rest(void **state)
{
    struct story s = tell_story(*state);
    begin(&s, PP, 10);
    kill_all(&s);
    uint64_t version = newest(&s, PP);
    flip_piece(s.w->ex[1].state_dir, PP, 1, version, ANY);
    assert_int_equal(recover(&s, PP), version); /* from its buddy */
    assert_true(s.n_told == 1 && s.n_refused == 1 && s.n_told_live == 0);
    assert_true(s.told.job == 1 && s.told.plan == PP && s.told.rank == 1 && s.told.owner == 1);
    assert_int_equal(s.told.version, version);
    assert_non_null(strstr(s.part, "(")); /* "wte.weight (m) [0:8, 0:4]" */
    assert_non_null(strstr(s.part, "["));
    end_story(&s);
}

/* Nobody needs it: it is told and goes, and the recovery goes on. Copies of the next versions come. */
static void test_a_copy_at_rest(void **state)
{
    struct story s = tell_story(*state);
    begin(&s, PP, 10);
    int buddy = buddy_of(&s, 0);
    kill_all(&s);
    uint64_t version = newest(&s, PP);
    flip_piece(s.w->ex[buddy].state_dir, PP, 0, version, ANY);
    assert_int_equal(recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 0);
    assert_true(s.told.rank == (uint32_t)buddy && s.told.owner == 0);
    xw_await_step(s.w, 0, version + 1);
    struct hsp_err err = {0};
    struct hsp_state_segment *again = NULL;
    for (uint64_t v = version; again == NULL && v < XW_STEPS; v++) {
        again = open_piece(s.w->ex[buddy].state_dir, PP, 0, v);
    }
    assert_non_null(again);
    (void)hsp_segment_verify(again, &err); /* it may be in use by now */
    (void)hsp_segment_close(again);
    end_story(&s);
}

/* With both of its owners damaged the version before it is not there either: nothing is made up. */
static void test_all_owners_at_rest(void **state)
{
    struct story s = tell_story(*state);
    struct hsp_state_piece held[64];
    begin(&s, PP, 10);
    int buddy = buddy_of(&s, 2);
    kill_all(&s);
    for (int round = 0; round < 2; round++) { /* both slots */
        uint64_t version;
        if (!hsp_recover_version(&s.plan[PP]->info, held, scan(&s, PP, held), &version)) {
            break;
        }
        flip_piece(s.w->ex[2].state_dir, PP, 2, version, ANY);
        flip_piece(s.w->ex[buddy].state_dir, PP, 2, version, ANY);
        struct xw_epoch d = {.epoch = s.epoch += 2,
                             .plan_no = PP,
                             .from_no = PP,
                             .mode = HSP_MODE_RECOVER,
                             .step = version,
                             .plan = s.plan[PP],
                             .from = s.plan[PP],
                             .n_peers = 3,
                             .n_live = 3,
                             .live = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}}};
        xw_send_prepare(s.w, &d);
        assert_false(all_ready(&s, 3));
    }
    assert_true(s.n_told >= 2 && s.n_refused >= 1);
    uint64_t version;
    assert_false(hsp_recover_version(&s.plan[PP]->info, held, scan(&s, PP, held), &version));
    (void)hsp_epoch_plan_free(s.plan[DP]);
    (void)hsp_epoch_plan_free(s.plan[PP]);
}

/* The head says what the rest is: without it the file is no more than its name. */
static void test_a_head_at_rest(void **state)
{
    struct story s = tell_story(*state);
    begin(&s, PP, 10);
    kill_all(&s);
    uint64_t version = newest(&s, PP);
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/job-1+0+1+e%d+s%d.seg", s.w->ex[1].state_dir, PP,
                   (int)(version % 2));
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 4096 + 8, SEEK_SET), 0); /* in the table of rows */
    int byte = fgetc(f);
    assert_int_equal(fseek(f, 4096 + 8, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 4, f), EOF);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 0 && s.told.version == HSP_NO_VERSION);
    assert_string_equal(s.part, "the head");
    end_story(&s);
}

/* ---- on its way, or in use ---- */

/* A receiver compares what came with the seal of its owner. */
static void test_a_row_on_its_way(void **state)
{
    struct story s = tell_story(*state);
    begin(&s, PP, 10);
    int buddy = buddy_of(&s, 1);
    kill_all(&s);
    uint64_t version = newest(&s, PP);
    flip_piece(s.w->ex[1].state_dir, PP, 1, version, ANY); /* so that its buddy sends it */
    plan_harm(AT_RECOVERY, (unsigned)buddy, version, 1);
    (void)recover(&s, PP);
    await_break(&s, 3);
    assert_true(broke_with(&s, "is damaged"));
    flip_piece(s.w->ex[buddy].state_dir, PP, 1, version,
               ANY); /* back: only what was sent was damaged */
    assert_int_equal(recover(&s, PP), version);
    assert_true(s.n_told == 1 && s.n_refused == 1); /* that of the home */
    end_story(&s);
}

static void test_a_home_that_is_copied(void **state)
{
    struct story s = tell_story(*state);
    plan_harm(AT_COPIES, 1, 12, NOBODY);
    begin(&s, PP, 0);
    await_break(&s, 3);
    assert_true(s.n_told == 1 && s.n_told_live == 1 && s.told.version == 12);
    assert_true(broke_with(&s, "version 12 here is damaged"));
    assert_int_equal(recover(&s, PP), 11);
    end_story(&s);
}

/* Damaged between the last vote of the old layout and the move, in a row of which a part moves or in one that moves
 * whole: the old layout goes on from the version before. */
static void test_a_source_of_a_switch(void **state)
{
    struct story s = tell_story(*state);
    begin(&s, DP, 5);
    plan_harm(AT_SWITCH, 1, 0, NOBODY);
    s.epoch = 12;
    struct xw_epoch d = {.epoch = 12,
                         .plan_no = PP,
                         .from_no = DP,
                         .base = 11,
                         .mode = HSP_MODE_SWITCH,
                         .plan = s.plan[PP],
                         .from = s.plan[DP],
                         .n_peers = 3,
                         .n_live = 2,
                         .live = {{0, 0, 0}, {1, 1, 1}}};
    xw_send_prepare(s.w, &d);
    assert_true(all_ready(&s, 3));
    xw_send_ref(s.w, 0, HSP_MSG_ARM, 12);
    xw_send_ref(s.w, 1, HSP_MSG_ARM, 12);
    await_break(&s, 3);
    assert_true(broke_with(&s, "is damaged"));
    uint64_t stable = s.w->stable;
    assert_true(recover(&s, DP) >= stable);
    end_story(&s);
}

/* ---- before it goes into a file ---- */

/* Devices compute on memory of their own: only the files would be wrong. */
static void test_a_home_that_is_written(void **state)
{
    struct story s = tell_story(*state);
    s.w->unwritable = true;
    plan_harm(AT_CHECKPOINT, 1, 25, NOBODY);
    begin(&s, PP, 0);
    await_msg(&s, 0, HSP_MSG_CHECKPOINTED);
    assert_true(s.w->last.u.ckpt.step == 25 && !s.w->last.u.ckpt.complete);
    assert_non_null(strstr(s.w->last.u.ckpt.reason, "n1/0"));
    assert_non_null(strstr(s.w->last.u.ckpt.reason, "damaged"));
    await_msg(&s, 0, HSP_MSG_CHECKPOINTED);
    assert_true(s.w->last.u.ckpt.step == 50 && s.w->last.u.ckpt.complete);
    await_msg(&s, 1, HSP_MSG_STATE_DAMAGED);
    assert_true(s.n_told == 1 && s.n_told_live == 1 && s.told.version == 25);
    plan_harm(AT_END, 2, XW_STEPS, NOBODY);
    await_break(&s, 3);
    assert_true(broke_with(&s, "version 60 here is damaged"));
    assert_int_equal(recover(&s, PP), XW_STEPS);
    end_story(&s);
}

static int setup(void **state)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    return xw_setup(state);
}

static int setup_device(void **state)
{
    int rc = setup(state);
    ((struct xw_world *)*state)->device = true;
    return rc;
}

static int teardown(void **state)
{
    (void)munmap(board, sizeof *board);
    return xw_teardown(state);
}

HSP_TEST_FILE(executor_damage_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_home_at_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_copy_at_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_owners_at_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_head_at_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_row_on_its_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_home_that_is_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_source_of_a_switch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_home_that_is_written, setup_device, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
