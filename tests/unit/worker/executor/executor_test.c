/* Checks executor processes with plans made by the planner: a fresh start, a planned switch to
 * another layout with a joining device, a killed executor and the recovery, and the end of the job.
 * The losses of all steps must be those of one undisturbed device. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/worker/executor/executor_world.h"
#include "worker/exec/pace.h"
#include "worker/state/segment_name.h"

/* Runs epoch 11, data parallel on executors 0 and 1, until step 15. */
static void begin_on_two(struct xw_world *w, struct hsp_epoch_plan *dp)
{
    w->speed = 0.2;
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    struct xw_epoch first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    xw_prepare(w, &first);
    xw_send_start(w, 0, 11, 0);
    xw_send_start(w, 1, 11, 0);
    xw_await_step(w, 0, 15);
}

/* Returns true if executor @i has its home in layout @plan. */
static bool holds(struct xw_world *w, int i, uint64_t plan)
{
    struct hsp_m_holding *held = NULL;
    uint32_t n = 0;
    struct hsp_err err = {0};
    bool found = false;
    assert_ok(hsp_segname_scan(w->ex[i].state_dir, &held, &n, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        found = found || (held[k].plan == plan && held[k].owner == held[k].rank);
    }
    free(held);
    return found;
}

/* Switches to epoch 12, a pipeline on all three devices, and runs five steps. Then releases the
 * previous layout, whose state must exist until then. */
static void switch_to_three(struct xw_world *w, struct hsp_epoch_plan *dp,
                            struct hsp_epoch_plan *pp)
{
    struct hsp_err err = {0};
    struct xw_epoch second =
        xw_go_on(12, HSP_MODE_SWITCH, (struct xw_layout){2, pp}, (struct xw_layout){1, dp}, 2);
    xw_prepare(w, &second);
    xw_send_ref(w, 0, HSP_MSG_ARM, 12);
    xw_send_ref(w, 1, HSP_MSG_ARM, 12);
    xw_await(w, 2, HSP_MSG_STARTED);
    assert_true(w->last.u.started.transfer_bytes > 0);
    uint64_t began = w->last.u.started.step;
    assert_true(began > 15);
    xw_await_step(w, 0, began + 5);
    for (int i = 0; i < 3; i++) {
        assert_true(holds(w, i, 2));
        assert_true(holds(w, i, 1) == (i < 2));
        struct hsp_msg m = {
            .type = HSP_MSG_RELEASE, .epoch = 12, .u.release = {.job = 1, .keep_plan = 2}};
        assert_ok(hsp_chan_send(&w->ex[i].chan, &m, &err), &err);
        xw_await(w, i, HSP_MSG_RELEASED);
        assert_false(holds(w, i, 1));
    }
}

/* Returns the greatest version of which all three devices have their homes. */
static uint64_t newest_of_all(struct xw_world *w)
{
    struct hsp_m_holding *held = NULL;
    uint32_t n_held = 0;
    struct hsp_err err = {0};
    uint64_t version = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t best = 0;
        assert_ok(hsp_segname_scan(w->ex[i].state_dir, &held, &n_held, &err), &err);
        for (uint32_t k = 0; k < n_held; k++) {
            if (held[k].owner == held[k].rank && held[k].version > best) {
                assert_int_equal(held[k].plan, 2);
                best = held[k].version;
            }
        }
        free(held);
        version = best < version ? best : version;
    }
    assert_true(version >= w->sure);
    return version;
}

/* Kills executor 1, and has the other two seal epoch @epoch. Returns the version from which the job
 * can go on. */
static uint64_t lose_one(struct xw_world *w, uint64_t epoch)
{
    xw_end(&w->ex[1]);
    xw_await(w, 0, HSP_MSG_PEER_LOST);
    xw_send_ref(w, 0, HSP_MSG_SEAL, epoch);
    xw_send_ref(w, 2, HSP_MSG_SEAL, epoch);
    xw_await(w, 0, HSP_MSG_SEALED);
    xw_await(w, 2, HSP_MSG_SEALED);
    xw_start_executor(w, 1);
    return newest_of_all(w);
}

static void flip_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(c ^ 1, f), c ^ 1);
    assert_int_equal(fclose(f), 0);
}

/* Writes into the data file: no vote is sent for a step that may have read the changed data, and
 * the state is kept. Then restores the old data, which have a new modification time now, so that
 * the job can go on. Returns the version from which it goes on. */
static uint64_t change_the_data(struct xw_world *w, uint64_t epoch)
{
    uint32_t said = 0;
    flip_byte(w->text, 1000);
    for (int i = 0; i < 3; i++) {
        xw_await(w, i, HSP_MSG_PEER_LOST); /* a rank may learn of it from another rank */
        said += strstr(w->last.u.lost.reason, "has changed while the job reads it: ") != NULL;
    }
    assert_true(said >= 1);
    for (int i = 0; i < 3; i++) {
        xw_send_ref(w, i, HSP_MSG_SEAL, epoch);
        xw_await(w, i, HSP_MSG_SEALED);
    }
    flip_byte(w->text, 1000);
    return newest_of_all(w);
}

/* Recovers the job from @version in the pipeline @pp. */
static void recover(struct xw_world *w, struct hsp_epoch_plan *pp, uint64_t epoch, uint64_t version)
{
    struct xw_epoch third =
        xw_go_on(epoch, HSP_MODE_RECOVER, (struct xw_layout){2, pp}, (struct xw_layout){2, pp}, 3);
    third.step = version;
    xw_prepare(w, &third);
    for (int i = 0; i < 3; i++) {
        xw_send_start(w, i, epoch, version);
    }
}

/* Checks a switch, a loss and a recovery of a job that computes in bf16, on devices without bf16.
 * Its state is fp32 and is transferred like any state. The losses differ only by rounding, because
 * sums are made in another order. Each executor logs once that it computes in another type. */
static void test_a_bf16_job_goes_on(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS], apart = 0;
    xw_compute(w, "bf16");
    xw_reference(w, loss, val);
    const char *log = xw_log(w);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    begin_on_two(w, dp);
    switch_to_three(w, dp, pp);
    recover(w, pp, 14, lose_one(w, 13));
    xw_await_end(w, 0);
    for (int i = 0; i < XW_STEPS; i++) {
        apart = fmax(apart, fabs(loss[i] - w->loss[i]));
    }
    assert_true(apart > 0 && apart < 0.02 * loss[0]);
    assert_true(w->loss[XW_STEPS - 1] < loss[0] - 0.5);
    /* Four processes have logged it: one was killed and started again. */
    assert_int_equal(xw_lines_with(log, "asks for bf16: device 0 computes in fp32"), 4);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

static void test_a_tf32_job_is_told(void **state)
{
    struct xw_world *w = *state;
    const char *log = xw_log(w);
    xw_compute(w, "tf32");
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 1, 0);
    xw_await_step(w, 0, 2);
    assert_int_equal(xw_lines_with(log, "asks for tf32: device 0 has none"), 1);
    (void)hsp_epoch_plan_free(p);
}

/* RELEASE of all layouts comes while the executor trains: from then on no file of the job is
 * written, also no notes of steps. */
static void test_what_is_released_is_not_made_again(void **state)
{
    struct xw_world *w = *state;
    char notes[PATH_MAX];
    struct hsp_err err = {0};
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    struct hsp_msg m = {.type = HSP_MSG_RELEASE,
                        .u.release = {.job = 1, .keep_plan = UINT64_MAX, .known = 1}};
    w->steps = 1000000;
    w->speed = 0.2;
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 1, 0);
    xw_await_step(w, 0, 2);
    hsp_segname_notes(w->ex[0].state_dir, 1, 0, notes);
    assert_int_equal(access(notes, F_OK), 0);
    assert_ok(hsp_chan_send(&w->ex[0].chan, &m, &err), &err);
    xw_await(w, 0, HSP_MSG_RELEASED);
    for (int64_t until = hsp_clock_ns() + 500000000; hsp_clock_ns() < until;) {
        assert_true(xw_next_msg(w, 0, XW_WAIT_MS)); /* heartbeats end each wait */
        assert_int_not_equal(w->last.type, HSP_MSG_STEP);
    }
    assert_false(holds(w, 0, 1));
    assert_int_not_equal(access(notes, F_OK), 0);
    (void)hsp_epoch_plan_free(p);
}

static void await_refusal(struct xw_world *w, const char *why)
{
    w->last.type = HSP_MSG_HEARTBEAT;
    for (int64_t until = hsp_clock_ns() + 20 * INT64_C(1000000000);
         w->last.type != HSP_MSG_PREPARE_FAILED;) {
        assert_true(hsp_clock_ns() < until); /* heartbeats end each wait */
        assert_true(xw_next_msg(w, 0, XW_WAIT_MS));
    }
    assert_non_null(strstr(w->last.u.failed.reason, why));
}

/* Another cluster, whose epochs have higher numbers, adopted a job by mistake and suspended it. The
 * job goes on in its own cluster. */
static void test_epochs_of_another_cluster_do_not_count(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 1282001, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    w->steps = 1000000;
    w->speed = 0.2;
    w->cluster = (struct hsp_digest){2, 2};
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_ref(w, 0, HSP_MSG_STOP, d.epoch);
    xw_await(w, 0, HSP_MSG_STOPPED);
    d.epoch = 2;
    xw_send_prepare(w, &d); /* within one cluster the numbers count */
    await_refusal(w, "epoch 2 of the job is over on this device, which has seen epoch 1282001");
    w->cluster = (struct hsp_digest){1, 1};
    xw_prepare(w, &d);
    xw_send_start(w, 0, 2, 0);
    xw_await_step(w, 0, 2);
    d.epoch = 1;
    xw_send_prepare(w, &d);
    await_refusal(w, "epoch 1 of the job is over on this device, which has seen epoch 2");
    (void)hsp_epoch_plan_free(p);
}

/* The other cluster stops the job on a device on which it has prepared no epoch. */
static void test_a_stop_ends_what_was_prepared(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_ref(w, 0, HSP_MSG_STOP, 1282001);
    xw_await(w, 0, HSP_MSG_STOPPED);
    d.epoch = 2;
    xw_prepare(w, &d);
    d.epoch = 1;
    xw_send_prepare(w, &d);
    await_refusal(w, "epoch 1 of the job is over on this device, which has seen epoch 2");
    (void)hsp_epoch_plan_free(p);
}

static bool has_mapped(const struct xw_world *w, int dev, const char *path)
{
    char name[64], line[4500];
    bool found = false;
    (void)snprintf(name, sizeof name, "/proc/%d/maps", (int)w->ex[dev].pid);
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    while (!found && fgets(line, sizeof line, f) != NULL) {
        found = strstr(line, path) != NULL;
    }
    assert_int_equal(fclose(f), 0);
    return found;
}

static void disturb(struct xw_world *w, uint32_t due_every)
{
    double loss[XW_STEPS], val[XW_STEPS];
    struct hsp_m_holding *held = NULL;
    uint32_t n_held = 0;
    struct hsp_err err = {0};
    xw_reference(w, loss, val);
    w->due_every = due_every;
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp), *pp = xw_make_plan(w, xw_plan_pp);
    begin_on_two(w, dp);
    switch_to_three(w, dp, pp);
    uint64_t version = change_the_data(w, 13);
    recover(w, pp, 14, version);
    xw_await_step(w, 0, version + 3);
    recover(w, pp, 16, lose_one(w, 15));
    xw_await_end(w, 0);

    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    assert_true(w->n_ckpt >= 1); /* the kill may have cut off the one of 25 */
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/t/final/model.safetensors", w->dir);
    assert_int_equal(access(path, R_OK), 0);
    assert_true(has_mapped(w, 0, w->text));
    xw_send_ref(w, 0, HSP_MSG_STOP, 16);
    xw_await(w, 0, HSP_MSG_STOPPED);
    while (has_mapped(w, 0, w->text)) { /* unmapped after STOPPED, with the memory of the epoch */
        xw_await_beat(w, 0);
    }
    assert_ok(hsp_segname_scan(w->ex[0].state_dir, &held, &n_held, &err), &err);
    assert_int_equal(n_held, 0);
    free(held);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

static void test_a_disturbed_run_has_the_losses_of_one_device(void **state)
{
    disturb(*state, 0);
}

static void test_the_same_where_few_versions_are_due(void **state)
{
    disturb(*state, 4);
}

static void test_the_same_where_rank_0_chooses_which(void **state)
{
    disturb(*state, HSP_DUE_AUTO);
}

/* Loses a node with its state: the copies bring its part back. */
static void lose_a_node(struct xw_world *w, uint32_t due_every)
{
    double loss[XW_STEPS], val[XW_STEPS];
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *pp = xw_make_plan(w, xw_plan_pp), *one = xw_make_plan(w, xw_plan_one);
    w->due_every = due_every;
    for (int i = 0; i < 3; i++) {
        xw_start_executor(w, i);
    }
    struct xw_epoch first = {
        .epoch = 21, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = pp, .n_peers = 3};
    xw_prepare(w, &first);
    for (int i = 0; i < 3; i++) {
        xw_send_start(w, i, 21, 0);
    }
    xw_await_step(w, 0, 10);
    xw_end(&w->ex[2]);
    xw_await(w, 0, HSP_MSG_PEER_LOST);
    xw_send_ref(w, 0, HSP_MSG_SEAL, 22);
    xw_send_ref(w, 1, HSP_MSG_SEAL, 22);
    xw_await(w, 0, HSP_MSG_SEALED);
    xw_await(w, 1, HSP_MSG_SEALED);
    struct xw_epoch next =
        xw_go_on(23, HSP_MODE_RECOVER, (struct xw_layout){3, one}, (struct xw_layout){1, pp}, 2);
    next.n_peers = 2;
    next.step = w->sure;
    assert_true(due_every > 0 ? w->sure >= 7 && w->sure % due_every == 0 : w->sure == w->stable);
    for (uint32_t i = 0; i < pp->copies.n; i++) { /* the holder of rank 2's part */
        const struct hsp_state_row *r = &pp->copies.row[i];
        if (r->from == 2 && next.n_live < 8) {
            next.live[next.n_live++] = (struct hsp_prepare_source){r->to, r->to, 2};
            break;
        }
    }
    assert_int_equal(next.n_live, 3);
    xw_prepare(w, &next);
    xw_send_start(w, 0, 23, w->sure);
    xw_send_start(w, 1, 23, w->sure);
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(pp);
    (void)hsp_epoch_plan_free(one);
}

static void test_second_copies_replace_a_lost_node(void **state)
{
    lose_a_node(*state, 0);
}

/* The job goes back to the newest version that is due and stable. */
static void test_the_same_of_a_version_that_was_due(void **state)
{
    lose_a_node(*state, 7);
}

/* Counts the rows that device 3, which needs no row, forwards, and the rows between 1 and 2, which
 * both need all rows. */
static void count_passed(struct xw_world *w, const struct xw_epoch *d, uint32_t *relayed,
                         uint32_t *handed_on)
{
    struct hsp_err err = {0};
    struct hsp_prepare_peer peers[XW_MAX_DEV];
    struct hsp_prepare_source live[] = {{0, 0, 0}};
    struct hsp_prepare_action a = {4, peers, 1, live, 0, 0, NULL, true};
    struct hsp_epoch_tables t;
    for (uint32_t i = 0; i < 4; i++) {
        peers[i] = (struct hsp_prepare_peer){HSP_DEVICE(i, 0u), ""};
    }
    assert_ok(hsp_epoch_tables_make(d->plan, d->from, d->net, &a, w->arena, &t, &err), &err);
    for (uint32_t i = 0; i < t.transfer.n; i++) {
        const struct hsp_state_row *r = &t.transfer.row[i];
        assert_true(r->passed_on == (r->from != 0));
        *relayed += r->from == 3;
        *handed_on += r->from == 1 || r->from == 2;
    }
}

static const char plan_three[] = "apiVersion: hspmd/v1\nkind: plan\nranks: 3\npipelines:\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [0]}]}\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [1]}]}\n"
                                 "  - {sequences: 2, stages: [{layers: 3, ranks: [2]}]}\n";

/* Devices 0 and 3 on one host, 1 and 2 on another, each with a NIC of its own. */
struct cards {
    struct hsp_device_desc dev[4];
    hsp_device_id device[4];
    struct hsp_epoch_net net;
};

static void make_cards(struct cards *c)
{
    *c = (struct cards){.dev = {{.host = 0}, {.host = 1}, {.host = 1}, {.host = 0}}};
    for (uint32_t i = 0; i < 4; i++) {
        c->dev[i].node = c->dev[i].nic = i;
        c->device[i] = HSP_DEVICE(i, 0u);
    }
    c->net = (struct hsp_epoch_net){
        .cluster = {.n = 4, .dev = c->dev, .same_node = {1, 1e-4}, .cross = {10, 1e-3}},
        .device = c->device};
}

/* Lets device 0 train alone for some steps as epoch @epoch. */
static void train_alone(struct xw_world *w, const struct hsp_epoch_plan *one, uint64_t epoch)
{
    w->speed = 0.1;
    for (int i = 0; i < 4; i++) {
        xw_start_executor(w, i);
    }
    struct xw_epoch first = {
        .epoch = epoch, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = one, .n_peers = 1};
    xw_prepare(w, &first);
    xw_send_start(w, 0, epoch, 0);
    xw_await_step(w, 0, 10);
}

/* Makes epoch @epoch: from one device, in the epoch before, to three, over @cards. */
static struct xw_epoch to_three(uint32_t epoch, struct hsp_epoch_plan *one,
                                struct hsp_epoch_plan *three, const struct cards *cards)
{
    return (struct xw_epoch){.epoch = epoch,
                             .plan_no = 2,
                             .from_no = 1,
                             .base = epoch - 1,
                             .mode = HSP_MODE_SWITCH,
                             .plan = three,
                             .from = one,
                             .net = &cards->net,
                             .n_peers = 4,
                             .n_live = 1,
                             .live = {{0, 0, 0}}};
}

/* State goes from device 0 to three devices, through the NIC of device 3 and both NICs of the
 * others: device 3 only forwards, and the others forward the rows of their NICs to each other. */
static void test_state_goes_by_relays(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    uint32_t relayed = 0, handed_on = 0;
    struct cards cards;
    make_cards(&cards);
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one), *dp = xw_make_plan(w, plan_three);
    train_alone(w, one, 31);
    struct xw_epoch second = to_three(32, one, dp, &cards);
    count_passed(w, &second, &relayed, &handed_on);
    assert_true(relayed > 0);
    assert_true(handed_on > 0);
    xw_prepare(w, &second);
    xw_send_ref(w, 0, HSP_MSG_ARM, 32);
    xw_await(w, 3, HSP_MSG_STARTED);
    assert_true(w->last.u.started.transfer_bytes > 0);
    assert_true(w->last.u.started.passed_on_bytes > 0);
    xw_await(w, 0, HSP_MSG_STARTED);
    assert_int_equal(w->last.u.started.passed_on_bytes, 0); /* its own rows were not sent to it */
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(one);
    (void)hsp_epoch_plan_free(dp);
}

/* Returns the newest version in @dir. */
static uint64_t newest(const char *dir)
{
    struct hsp_err err = {0};
    struct hsp_m_holding *held = NULL;
    uint32_t n = 0;
    uint64_t v = 0;
    assert_ok(hsp_segname_scan(dir, &held, &n, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        v = held[i].version > v ? held[i].version : v;
    }
    free(held);
    return v;
}

/* Device 3 dies while it has rows of other devices: it stops when the state begins to move, so no
 * receiver can have all of the state. The survivors get the state from device 0 without device
 * 3. */
static void test_a_relay_dies_in_mid_transfer(void **state)
{
    struct xw_world *w = *state;
    double loss[XW_STEPS], val[XW_STEPS];
    struct cards cards;
    make_cards(&cards);
    xw_reference(w, loss, val);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one), *dp = xw_make_plan(w, plan_three);
    train_alone(w, one, 41);
    struct xw_epoch second = to_three(42, one, dp, &cards);
    xw_prepare(w, &second);
    assert_int_equal(kill(w->ex[3].pid, SIGSTOP), 0);
    xw_send_ref(w, 0, HSP_MSG_ARM, 42);
    xw_await_standstill(w, 0); /* device 0 has left its epoch, and waits for device 3 */
    xw_end(&w->ex[3]);
    for (int i = 0; i < 3; i++) {
        do { /* device 0 may have begun; the others lack rows of device 3 */
            assert_true(xw_next_msg(w, i, XW_WAIT_MS));
            assert_true(i == 0 || w->last.type != HSP_MSG_STARTED);
        } while (w->last.type != HSP_MSG_PEER_LOST);
        xw_send_ref(w, i, HSP_MSG_SEAL, 43);
        xw_await(w, i, HSP_MSG_SEALED);
    }
    struct xw_epoch third = {.epoch = 44,
                             .plan_no = 3,
                             .from_no = 1,
                             .mode = HSP_MODE_RECOVER,
                             .plan = dp,
                             .from = one,
                             .n_peers = 3,
                             .n_live = 1,
                             .live = {{0, 0, 0}}};
    third.step = newest(w->ex[0].state_dir);
    assert_true(third.step > 10);
    xw_prepare(w, &third);
    for (int i = 0; i < 3; i++) {
        xw_send_start(w, i, 44, third.step);
    }
    xw_await_end(w, 0);
    xw_assert_same(loss, w->loss);
    xw_assert_same(val, w->val);
    (void)hsp_epoch_plan_free(one);
    (void)hsp_epoch_plan_free(dp);
}

HSP_TEST_FILE(executor_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_disturbed_run_has_the_losses_of_one_device, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_where_few_versions_are_due, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_where_rank_0_chooses_which, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_bf16_job_goes_on, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_tf32_job_is_told, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_released_is_not_made_again, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_epochs_of_another_cluster_do_not_count, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_stop_ends_what_was_prepared, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_second_copies_replace_a_lost_node, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_of_a_version_that_was_due, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_state_goes_by_relays, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_relay_dies_in_mid_transfer, xw_setup, xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The same tests on devices other than CPUs. */
HSP_TEST_FILE(device_executor_test)
{
    xw_on_device = true;
    return hsp_test_run("executor_test");
}
