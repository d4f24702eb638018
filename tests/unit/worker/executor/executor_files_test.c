/* Checks executors with faulty files: a model that cannot be written, training data that are not
 * read in time or do not fit into memory, and a state folder that cannot be used. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/data/formats.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

/* Waits for the next report of files that could not be written. */
static void await_unwritten(struct xw_world *w, const char *reason)
{
    for (uint32_t n = w->n_unwritten; w->n_unwritten == n;) {
        xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    }
    assert_int_equal(w->last.u.ckpt.step, XW_STEPS);
    assert_string_equal(w->last.u.ckpt.reason, reason);
}

static uint32_t count_lines(const struct hsp_msg *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->blob_len; i++) {
        n += m->blob[i] == '\n';
    }
    return n;
}

/* Lets two devices train to the end. A file at path @final blocks the folder for the model. */
static struct hsp_epoch_plan *end_without_a_folder(struct xw_world *w, char final[4300])
{
    char path[4300];
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch d = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    (void)snprintf(path, sizeof path, "%s/t", w->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(final, 4300, "%s/t/final", w->dir);
    int fd = open(final, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    w->unwritable = true;
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 41, 0);
    xw_send_start(w, 1, 41, 0);
    xw_await_step(w, 0, XW_STEPS);
    return dp;
}

/* The model cannot be written: first its folder is missing; then only the rename to its final name
 * fails, after the gathering. Both faults are reported with a remedy, and the model is written when
 * they are repaired. One device cannot note its steps; the other device notes them. */
static void test_a_final_model_is_tried_until_it_is_written(void **state)
{
    struct xw_world *w = *state;
    char final[4300], path[4400], notes[PATH_MAX], reason[4600];
    (void)snprintf(notes, sizeof notes, "%s/state-0", w->dir);
    assert_int_equal(mkdir(notes, 0700), 0);
    hsp_segname_notes(notes, 1, 0, path);
    assert_int_equal(mkdir(path, 0700), 0); /* a folder in the place of the file */
    struct hsp_epoch_plan *dp = end_without_a_folder(w, final);
    (void)snprintf(
        reason, sizeof reason,
        "n0/0: cannot open folder %s: Not a directory; move away the file or folder in its place",
        final);
    await_unwritten(w, reason);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", final);
    assert_int_equal(unlink(final), 0);
    assert_int_equal(mkdir(final, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(
        reason, sizeof reason,
        "n0/0: cannot rename to %s: Is a directory; move away the file or folder in its place",
        path);
    await_unwritten(w, reason);
    assert_int_equal(rmdir(path), 0);
    xw_await(w, 0, HSP_MSG_FINISHED);
    assert_int_equal(count_lines(&w->last), XW_STEPS);
    assert_int_equal(access(path, R_OK), 0);
    (void)hsp_epoch_plan_free(dp);
}

/* A damaged note is left out of metrics.jsonl, and its file is reported to hspmdd. */
static void test_a_damaged_note_is_told_at_the_end(void **state)
{
    static const char forged[] =
        "0123456789abcdef 99 1 {\"step\":1,\"loss\":9,\"tokens\":1,\"epoch\":99}\n";
    struct xw_world *w = *state;
    struct hsp_err err = {0};
    char dir[4300], path[PATH_MAX], told[5000];
    (void)snprintf(dir, sizeof dir, "%s/state-1", w->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    hsp_segname_notes(dir, 1, 0, path);
    assert_ok(hsp_file_write(path, forged, sizeof forged - 1, 0600, &err), &err);
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch d = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 41, 0);
    xw_send_start(w, 1, 41, 0);
    xw_await(w, 0, HSP_MSG_FINISHED);
    (void)snprintf(told, sizeof told, "n1/0: line 1 of %s is damaged, and left out", path);
    assert_string_equal(w->last.u.finished.damage, told);
    assert_int_equal(count_lines(&w->last), XW_STEPS);
    assert_null(memmem(w->last.blob, w->last.blob_len, "\"epoch\":99", 10));
    (void)hsp_epoch_plan_free(dp);
}

/* Lets device 0 train to step 15. With @two device 1 trains, too, else it is a replica holder. Then
 * the node of device 0 is lost with its state, and another node replaces it. Returns the version
 * from which the job goes on. */
static uint64_t replace_the_first(struct xw_world *w, bool two, const struct hsp_epoch_plan *p)
{
    struct xw_epoch first = {.epoch = 51,
                             .plan_no = 1,
                             .mode = HSP_MODE_FRESH,
                             .plan = p,
                             .n_peers = 2,
                             .n_keepers = two ? 0 : 1};
    w->speed = 0.2;
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &first);
    xw_send_start(w, 0, 51, 0);
    xw_send_start(w, 1, 51, 0);
    xw_await_step(w, 0, 15);
    xw_end(&w->ex[0]);
    xw_await(w, 1, HSP_MSG_PEER_LOST);
    xw_send_ref(w, 1, HSP_MSG_SEAL, 52);
    xw_await(w, 1, HSP_MSG_SEALED);
    hsp_test_rmdir(w->ex[0].state_dir);
    w->speed = 1;
    xw_start_executor(w, 0);
    return w->stable;
}

/* Lets the new device 0 go on alone, with the state of device 1. */
static void go_on_alone(struct xw_world *w, bool two, const struct hsp_epoch_plan *from,
                        const struct hsp_epoch_plan *one, uint64_t version)
{
    struct xw_epoch next = {.epoch = 53,
                            .plan_no = 2,
                            .from_no = 1,
                            .mode = HSP_MODE_RECOVER,
                            .step = version,
                            .plan = one,
                            .from = from,
                            .n_peers = 2,
                            .n_live = two ? 2 : 1,
                            .live = {{1, 1, 0}, {1, 1, 1}}};
    xw_prepare(w, &next);
    xw_send_start(w, 0, 53, version);
    xw_send_start(w, 1, 53, version);
    xw_await(w, 0, HSP_MSG_FINISHED);
}

/* The rank that ends the job knows each step, also the steps of nodes that have left, because notes
 * move with the state. If peers run an older program (@older), which does not share notes, the
 * steps without a note are reported. */
static void metrics_go_where_the_state_goes(struct xw_world *w, bool two, bool older)
{
    char lacking[64];
    struct hsp_epoch_plan *from =
        two ? xw_make_plan(w, xw_plan_dp) : xw_make_kept_plan(w, xw_plan_one);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    w->older_peers = older;
    uint64_t version = replace_the_first(w, two, from);
    go_on_alone(w, two, from, one, version);
    (void)snprintf(lacking, sizeof lacking, "%d of %d steps: 0 to %d", (int)version, XW_STEPS,
                   (int)version - 1);
    assert_string_equal(w->last.u.finished.lacking, older ? lacking : "");
    assert_int_equal(count_lines(&w->last), older ? XW_STEPS - version : XW_STEPS);
    for (int i = older ? (int)version : 0; i < XW_STEPS; i++) {
        char step[32];
        (void)snprintf(step, sizeof step, "{\"step\":%d,", i);
        assert_non_null(memmem(w->last.blob, w->last.blob_len, step, strlen(step)));
    }
    (void)hsp_epoch_plan_free(from);
    (void)hsp_epoch_plan_free(one);
}

static void test_metrics_of_a_lost_node_are_known_to_its_mate(void **state)
{
    metrics_go_where_the_state_goes(*state, true, false);
}

static void test_metrics_of_a_lost_node_are_known_to_its_replica_holder(void **state)
{
    metrics_go_where_the_state_goes(*state, false, false);
}

/* A job has ended and written metrics.jsonl. Then it goes back to a checkpoint, because hspmdd was
 * restored from a backup, and its notes are lost. The lines of the file stay, except lines of steps
 * that are made again, and text of another form. */
static void test_metrics_of_an_earlier_end_stay(void **state)
{
    static const char earlier[] = "{\"step\":0,\"loss\":9.5,\"tokens\":1,\"epoch\":40}\n"
                                  "{\"step\":2,\"loss\":\"nan\",\"tokens\":1,\"epoch\":41}\n"
                                  "{\"step\":3,\"loss\":9.5,\"tokens\":1,\"epoch\":4\n"
                                  "{\"step\":59,\"loss\":9.5,\"tokens\":1,\"epoch\":41}\n"
                                  "{\"step\":900,\"loss\":9.5,\"tokens\":1,\"epoch\":41}\n";
    struct xw_world *w = *state;
    struct hsp_err err = {0};
    char final[4300], path[4400], lacking[64];
    uint8_t *text = NULL;
    size_t len = 0;
    struct hsp_epoch_plan *from = xw_make_plan(w, xw_plan_dp), *one = xw_make_plan(w, xw_plan_one);
    (void)snprintf(final, sizeof final, "%s/t", w->dir);
    assert_int_equal(mkdir(final, 0700), 0);
    (void)snprintf(final, sizeof final, "%s/t/final", w->dir);
    assert_int_equal(mkdir(final, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", final);
    assert_ok(hsp_file_write(path, earlier, sizeof earlier - 1, 0600, &err), &err);
    w->older_peers = true;
    uint64_t version = replace_the_first(w, true, from);
    go_on_alone(w, true, from, one, version);
    (void)snprintf(lacking, sizeof lacking, "%d of %d steps: 1, 3 to %d", (int)version - 2,
                   XW_STEPS, (int)version - 1);
    assert_string_equal(w->last.u.finished.lacking, lacking);
    assert_int_equal(count_lines(&w->last), XW_STEPS - version + 2);
    assert_ok(hsp_file_read(path, 1 << 20, &text, &len, &err), &err);
    assert_int_equal(len, w->last.blob_len);
    assert_memory_equal(text, w->last.blob, len);
    assert_memory_equal(text, earlier, 90);
    assert_null(memmem(text + 90, len - 90, "9.5", 3));
    free(text);
    (void)hsp_epoch_plan_free(from);
    (void)hsp_epoch_plan_free(one);
}

static void test_steps_without_metrics_are_told_at_the_end(void **state)
{
    metrics_go_where_the_state_goes(*state, true, true);
}

/* An administrator can end a job that waits for its disk. */
static void test_a_job_that_waits_for_its_disk_can_be_ended(void **state)
{
    struct xw_world *w = *state;
    char final[4300];
    struct hsp_epoch_plan *dp = end_without_a_folder(w, final);
    xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    for (int i = 0; i < 2; i++) {
        xw_send_ref(w, i, HSP_MSG_STOP, 41);
        xw_await(w, i, HSP_MSG_STOPPED);
    }
    assert_false(w->finished);
    (void)hsp_epoch_plan_free(dp);
}

static void arm(struct xw_world *w, const struct xw_epoch *d, int n_voters)
{
    xw_prepare(w, d);
    for (int i = 0; i < n_voters; i++) {
        xw_send_ref(w, i, HSP_MSG_ARM, d->epoch);
    }
    for (int i = n_voters; i-- > 0;) {
        xw_await(w, i, HSP_MSG_STARTED);
        assert_int_equal(w->last.u.started.step, XW_STEPS);
    }
}

/* While rank 0 waits for its disk, a next epoch on other devices may begin and write the model
 * instead. Some of these devices join; in the third epoch two devices only hand over. */
static void test_a_final_model_is_written_by_the_next_epoch(void **state)
{
    struct xw_world *w = *state;
    char final[4300], other[4300], path[4400];
    struct hsp_epoch_plan *dp = end_without_a_folder(w, final);
    struct hsp_epoch_plan *pp = xw_make_plan(w, xw_plan_pp), *one = xw_make_plan(w, xw_plan_one);
    (void)snprintf(other, sizeof other, "%s/other", w->dir);
    struct xw_epoch second =
        xw_go_on(42, HSP_MODE_SWITCH, (struct xw_layout){2, pp}, (struct xw_layout){1, dp}, 2);
    struct xw_epoch third =
        xw_go_on(43, HSP_MODE_SWITCH, (struct xw_layout){3, one}, (struct xw_layout){2, pp}, 3);
    third.path = other;
    xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    xw_start_executor(w, 2);
    arm(w, &second, 2);
    do {
        xw_await(w, 0, HSP_MSG_CHECKPOINTED);
    } while (w->last.epoch != 42);
    arm(w, &third, 3);
    xw_await_end(w, 0);
    (void)snprintf(path, sizeof path, "%s/t/final/model.safetensors", other);
    assert_int_equal(access(path, R_OK), 0);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
    (void)hsp_epoch_plan_free(one);
}

static bool is_there(const struct xw_world *w, const char *name)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/t/%s", w->dir, name);
    return access(path, F_OK) == 0;
}

static bool says(const struct xw_world *w, const char *name, const char *text)
{
    struct hsp_err err = {0};
    char path[4400];
    uint8_t *data = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/t/%s", w->dir, name);
    assert_ok(hsp_file_read(path, 1u << 24, &data, &n, &err), &err);
    bool does = memmem(data, n, text, strlen(text)) != NULL;
    free(data);
    return does;
}

/* After an adoption by another cluster the checkpoints and the final model still belong to the job,
 * which may replace them. A job of another cluster with the same name replaces neither: it does not
 * write a checkpoint of a step that exists, and renames the existing model. */
static void test_an_adopted_job_owns_its_files(void **state)
{
    struct xw_world *w = *state;
    const struct hsp_digest a = {1, 10}, b = {2, 11};
    double loss[XW_STEPS], val[XW_STEPS];
    w->cluster = a; /* hspmdd below protocol 15 sends no more fields */
    xw_reference(w, loss, val);
    assert_true(is_there(w, "step-0000000050") && is_there(w, "final/model.safetensors"));
    assert_true(says(w, "final/model.safetensors", "0000000000000001000000000000000a"));
    w->cluster = b;
    w->born = a;
    xw_reference(w, loss, val);
    assert_int_equal(w->n_unwritten, 0);
    assert_false(is_there(w, "step-0000000050.job-1") || is_there(w, "final.earlier"));
    assert_false(is_there(w, "final.job-1.0000000000000001000000000000000a"));
    w->born = b;
    w->unwritable = true;
    xw_reference(w, loss, val);
    assert_int_equal(w->n_unwritten, 2); /* the checkpoints of steps 25 and 50 */
    assert_true(is_there(w, "final.job-1.0000000000000001000000000000000a/model.safetensors"));
    assert_true(is_there(w, "final/model.safetensors") && is_there(w, "step-0000000050"));
}

/* Reading the training data of an epoch takes a minute. Meanwhile the executor sends heartbeats,
 * and DROP or STOP ends the epoch, so that another epoch can be prepared. At the end the file is
 * replaced by a short one, with which the third epoch becomes READY. */
static void test_data_that_take_long_hold_nothing_up(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 31, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    assert_int_equal(truncate(w->text, (off_t)1 << 36), 0);
    xw_send_prepare(w, &d);
    xw_await_beat(w, 0);
    xw_await_beat(w, 0);
    xw_send_ref(w, 0, HSP_MSG_DROP, 31);
    d.epoch = 32;
    xw_send_prepare(w, &d);
    xw_await_beat(w, 0);
    xw_send_ref(w, 0, HSP_MSG_STOP, 32);
    xw_await(w, 0, HSP_MSG_STOPPED);
    assert_int_equal(unlink(w->text), 0);
    xw_write_text(w);
    d.epoch = 33;
    xw_prepare(w, &d);
    (void)hsp_epoch_plan_free(p);
}

static size_t n_segments(const struct xw_world *w)
{
    struct hsp_segment_info *info = NULL;
    struct hsp_err err = {0};
    size_t n = 0;
    assert_ok(hsp_segment_scan(w->ex[0].state_dir, &info, &n, &err), &err);
    free(info);
    return n;
}

/* A prepared epoch has taken room for its state. DROP and the end of the process free that room.
 * Otherwise it would be taken until the agent ends, although no job needs it. */
static void test_what_never_began_leaves_no_state(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 51, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    assert_int_equal(n_segments(w), 2);
    xw_send_ref(w, 0, HSP_MSG_DROP, 51);
    xw_await(w, 0, HSP_MSG_DROPPED);
    assert_int_equal(n_segments(w), 0);
    d.epoch = 52;
    xw_prepare(w, &d);
    assert_int_equal(n_segments(w), 2);
    xw_end(&w->ex[0]);
    xw_start_executor(w, 0);
    assert_int_equal(n_segments(w), 0);
    (void)hsp_epoch_plan_free(p);
}

/* Attempts to restore a checkpoint that no member has leave no state. Each attempt has a layout of
 * its own, as hspmdd chooses it. */
static void test_attempts_without_a_checkpoint_leave_no_state(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.mode = HSP_MODE_RESTORE, .step = 25, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        d.epoch = 60 + i;
        d.plan_no = i;
        xw_prepare(w, &d);
        assert_int_equal(n_segments(w), 2);
        xw_send_start(w, 0, d.epoch, 25);
        xw_await(w, 0, HSP_MSG_CKPT_REFUSED);
        xw_send_ref(w, 0, HSP_MSG_SEAL, d.epoch);
        xw_await(w, 0, HSP_MSG_SEALED);
        xw_send_ref(w, 0, HSP_MSG_DROP, d.epoch); /* answered when that epoch has ended */
        xw_await(w, 0, HSP_MSG_DROPPED);
        assert_int_equal(n_segments(w), 0);
    }
    (void)hsp_epoch_plan_free(p);
}

/* Asserts that PREPARE of @d fails with @fact and @reason. */
static void fails_with(struct xw_world *w, const struct xw_epoch *d, uint32_t fact,
                       const char *reason)
{
    xw_send_prepare(w, d);
    do {
        assert_true(xw_next_msg(w, 0, XW_WAIT_MS));
    } while (w->last.type == HSP_MSG_HEARTBEAT);
    assert_int_equal(w->last.type, HSP_MSG_PREPARE_FAILED);
    assert_int_equal(w->last.u.failed.fact, fact);
    if (strstr(w->last.u.failed.reason, reason) == NULL) {
        fail_msg("%s", w->last.u.failed.reason);
    }
}

/* The files of the data are too large to be mapped. The node has the data, so it must not report
 * that they are missing. */
static void test_data_that_memory_does_not_suffice_for_are_not_absent(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    char more[4300];
    if (getenv("HSPMD_VALGRIND") != NULL) {
        (void)hsp_epoch_plan_free(p);
        print_message("not under valgrind: it has fewer addresses, and says so in another way\n");
        return;
    }
    assert_int_equal(truncate(w->text, (off_t)HSP_MAX_DATA_BYTES), 0);
    for (int i = 0; i < 40; i++) { /* 32 files make 2^47 bytes */
        (void)snprintf(more, sizeof more, "%s/more-%d", w->dir, i);
        assert_int_equal(link(w->text, more), 0);
    }
    (void)snprintf(w->text, sizeof w->text, "%s/more-*", w->dir);
    xw_start_executor(w, 0);
    fails_with(w, &d, HSP_FACT_OTHER, "Cannot allocate memory");
    (void)hsp_epoch_plan_free(p);
}

/* A file of data that is shorter than one window (the tokens of a sample) counts as missing, and is
 * reported before a step runs. */
static void test_data_of_less_than_a_window_are_none(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {
        .epoch = 51, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    assert_int_equal(truncate(w->text, 1), 0);
    xw_start_executor(w, 0);
    fails_with(w, &d, HSP_FACT_NO_DATA, "data of 1 tokens");
    assert_non_null(strstr(w->last.u.failed.reason, w->text));
    (void)hsp_epoch_plan_free(p);
}

/* Missing initial weights are reported before a step runs, like missing data. If the file exists
 * and is of another kind, the job fails later, when its weights are read. */
static void test_initial_weights_that_are_not_there(void **state)
{
    struct xw_world *w = *state;
    char path[4200];
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 55,
                         .plan_no = 1,
                         .mode = HSP_MODE_FRESH,
                         .plan = p,
                         .n_peers = 1,
                         .init_from = path};
    (void)snprintf(path, sizeof path, "%s/none.safetensors", w->dir);
    xw_start_executor(w, 0);
    fails_with(w, &d, HSP_FACT_NO_DATA, "init_from: cannot open");
    (void)snprintf(path, sizeof path, "%s", w->text);
    d.epoch = 56;
    xw_prepare(w, &d);
    (void)hsp_epoch_plan_free(p);
}

/* Prepares an epoch on one device and asserts that PREPARE fails with @fact and @reason. */
static void await_refusal(struct xw_world *w, uint32_t fact, const char *reason)
{
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    static uint64_t epoch = 60;
    struct xw_epoch d = {
        .epoch = ++epoch, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    fails_with(w, &d, fact, reason);
    (void)hsp_epoch_plan_free(p);
}

/* The path of the state folder is a file: the node is reported as unusable, not as short of
 * memory. */
static void test_a_state_folder_that_is_none_is_named(void **state)
{
    struct xw_world *w = *state;
    xw_start_executor(w, 0);
    assert_int_equal(rmdir(w->ex[0].state_dir), 0);
    int fd = open(w->ex[0].state_dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    await_refusal(w, HSP_FACT_STATE_FOLDER,
                  ": Not a directory [ENOTDIR]; put a folder in the place of the file");
    assert_int_equal(unlink(w->ex[0].state_dir), 0);
    await_refusal(w, HSP_FACT_STATE_FOLDER,
                  ": No such file or directory [ENOENT]; make the folder again, or restart "
                  "hspmd-worker");
}

static void mount_folder(const struct xw_world *w, unsigned long flags, const char *size)
{
    if (mount("state", w->ex[0].state_dir, "tmpfs", flags, size) != 0) {
        fail_msg("mount: %s", strerror(errno));
    }
}

/* The state folder is on a file system that is read-only, full or almost full. */
static void test_a_state_folder_that_takes_nothing(void **state)
{
    struct xw_world *w = *state;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0) {
        print_message("not without the right to mount\n");
        return;
    }
    xw_start_executor(w, 0);
    mount_folder(w, MS_RDONLY, "size=64m");
    await_refusal(w, HSP_FACT_STATE_FOLDER, ": Read-only file system [EROFS]; mount it writable");
    assert_int_equal(umount(w->ex[0].state_dir), 0);
    mount_folder(w, 0, "size=8k");
    await_refusal(w, HSP_FACT_STATE_FOLDER, "No space left on device [ENOSPC]; make room in");
    assert_int_equal(umount(w->ex[0].state_dir), 0);
    mount_folder(w, 0, "size=64k");
    await_refusal(w, HSP_FACT_OUT_OF_MEMORY, "No space left on device");
    assert_true(w->last.u.failed.amount != UINT64_MAX); /* a smaller plan would fit */
    assert_int_equal(umount(w->ex[0].state_dir), 0);
}

/* Other files have filled the folder in which the job's state of layout 7 is. A smaller part of the
 * model would not fit either: the job goes on without the node, and fetches the state from it. */
static void test_a_folder_filled_beside_the_state_of_the_job(void **state)
{
    struct xw_world *w = *state;
    const struct hsp_segname name = {.job = 1, .plan = 7};
    const struct hsp_whose whose = {.generation = 1};
    const struct hsp_segment_row row = {
        .dtype = HSP_F32, .full = {16}, .box = {.rank = 1, .hi = {16}}};
    struct hsp_segment_key key;
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    char path[4300], block[4096] = {0};
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0) {
        print_message("not without the right to mount\n");
        return;
    }
    xw_start_executor(w, 0);
    mount_folder(w, 0, "size=1m");
    hsp_segname_key(&name, &key);
    assert_ok(hsp_segment_create(w->ex[0].state_dir, &key, &whose, &row, 1, 64, NULL, &s, &err),
              &err);
    hsp_segment_seal(s, 3);
    (void)hsp_segment_close(s);
    (void)snprintf(path, sizeof path, "%s/others", w->ex[0].state_dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(close(fd), 0);
    await_refusal(w, HSP_FACT_STATE_FOLDER, "[ENOSPC]; make room in state_dir");
    assert_int_equal(umount(w->ex[0].state_dir), 0);
}

HSP_TEST_FILE(executor_files_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_final_model_is_tried_until_it_is_written, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_note_is_told_at_the_end, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_metrics_of_a_lost_node_are_known_to_its_mate, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_metrics_of_a_lost_node_are_known_to_its_replica_holder,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_metrics_of_an_earlier_end_stay, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_steps_without_metrics_are_told_at_the_end, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_job_that_waits_for_its_disk_can_be_ended, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_final_model_is_written_by_the_next_epoch, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_an_adopted_job_owns_its_files, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_data_that_take_long_hold_nothing_up, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_what_never_began_leaves_no_state, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_attempts_without_a_checkpoint_leave_no_state, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_data_that_memory_does_not_suffice_for_are_not_absent,
                                        xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_state_folder_that_is_none_is_named, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_filled_beside_the_state_of_the_job, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_a_state_folder_that_takes_nothing, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_initial_weights_that_are_not_there, xw_setup,
                                        xw_teardown),
        cmocka_unit_test_setup_teardown(test_data_of_less_than_a_window_are_none, xw_setup,
                                        xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
