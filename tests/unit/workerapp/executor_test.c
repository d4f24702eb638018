/* Real executor processes over socketpairs, driven as an agent would drive them, with real plans: a
 * fresh start, a planned switch to another layout with a joiner, a killed executor and recovery,
 * the end. The losses of every step must be those of one undisturbed device. */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/app/epochplan.h"
#include "daemon/planner/jobfile.h"
#include "tests/lib/testlib.h"
#include "worker/app/chan.h"
#include "worker/app/executor.h"
#include "worker/app/segname.h"
#include "worker/exec/pace.h"
#include "worker/data/formats.h"

#define STEPS   60
#define MAX_DEV 4
#define WAIT_MS 20000
#define BEAT_MS 500

/* Each device is the only one of its node, so that state has second copies. */
#define DEVICE(i) HSP_DEVICE((uint32_t)(i), 0u)

static const char job_text[] =
    "apiVersion: hspmd/v1\nname: t\n"
    "model: {family: gpt, layers: 3, hidden: 16, heads: 2, vocab: 256, sequence: 16, tied_head: "
    "true}\n"
    "data: {path: /none, validation_fraction: 0.1, validation_every: 10}\n"
    "train: {steps: 60, global_batch: 6, dtype: fp64, seed: 3, clip_norm: 1.0,\n"
    "  optimizer: {name: adamw, lr: 3e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1},\n"
    "  schedule: {name: cosine, warmup_steps: 20, min_lr: 3e-4}}\n"
    "resources: {min: 1, max: 4}\ncheckpoint: {path: /none, every_steps: 25, keep: 2}\n";

static const char plan_one[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 1, streams: [{sequences: 6, "
    "micro_batches: 1, stages: [{layers: 3, ranks: [0]}]}]}";
static const char plan_dp[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 2, zero: 1, streams: "
                              "[{sequences: 4, micro_batches: 2, stages: "
                              "[{layers: 3, ranks: [0]}]}, {sequences: 2, micro_batches: 1, "
                              "stages: [{layers: 3, ranks: [1]}]}]}";
static const char plan_pp[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 3, streams: [{sequences: "
                              "6, micro_batches: 3, stages: [{layers: "
                              "1, ranks: [0]}, {layers: 2, ranks: [1, 2], tensor: [1, 1]}]}]}";

struct exec_proc {
    pid_t pid;
    struct hsp_chan chan;
    char address[256];
    char state_dir[4200];
};

struct world {
    char *dir;
    char text[4200];
    struct hsp_arena *arena;
    const struct hsp_job_spec *job;
    struct hsp_graph *graph;
    struct exec_proc ex[MAX_DEV];
    double loss[STEPS];
    double val[STEPS];
    uint64_t stable; /* newest reported */
    bool final, finished;
    uint32_t n_ckpt;
    uint32_t n_unwritten; /* reports of files that could not be written, where they are expected */
    bool unwritable;
    struct hsp_msg last; /* what await() returned */
    struct hsp_frame frame;
    struct hsp_arena *msgs;
};

/* ---- processes ---- */

static void spawn(struct world *w, int dev)
{
    struct exec_proc *p = &w->ex[dev];
    int fds[2];
    (void)snprintf(p->state_dir, sizeof p->state_dir, "%s/state-%d", w->dir, dev);
    (void)mkdir(p->state_dir, 0700);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        char node[16];
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(node, sizeof node, "n%d", dev);
        struct hsp_executor_opts o = {.fd = fds[1],
                                      .device = 0,
                                      .node = node,
                                      .state_dir = p->state_dir,
                                      .listen = "127.0.0.1",
                                      .speed = 1,
                                      .mem_bytes = 1 << 30,
                                      .threads = 1,
                                      .heartbeat_ms = BEAT_MS,
                                      .log = hsp_log_new(2, HSP_LOG_WARN)};
        for (int i = 0; i < MAX_DEV; i++) {
            if (i != dev && w->ex[i].pid > 0) {
                (void)close(w->ex[i].chan.fd);
            }
        }
        (void)close(fds[0]);
        _exit(hsp_executor_main(&o));
    }
    (void)close(fds[1]);
    hsp_chan_init(&p->chan, fds[0]);
}

static void end(struct exec_proc *p)
{
    if (p->pid > 0) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        hsp_chan_fini(&p->chan);
        p->pid = 0;
    }
}

/* ---- messages ---- */

static void note_step(struct world *w, const struct hsp_m_step *s)
{
    w->stable = s->step;
    w->final |= s->final;
    if (s->step < STEPS) {
        w->loss[s->step] = s->loss;
        w->val[s->step] = s->val_loss;
    }
}

/* The next message of device @dev, in w->last; false after @ms. */
static bool next_msg(struct world *w, int dev, int ms)
{
    struct hsp_err err = {0};
    for (;;) {
        struct pollfd p = {.fd = w->ex[dev].chan.fd, .events = POLLIN};
        hsp_frame_fini(&w->frame);
        memset(&w->frame, 0, sizeof w->frame);
        hsp_arena_reset(w->msgs);
        enum hsp_status st = hsp_chan_recv(&w->ex[dev].chan, w->msgs, &w->frame, &w->last, &err);
        if (st != HSP_AGAIN) {
            assert_ok(st, &err);
            return true;
        }
        if (poll(&p, 1, ms) == 0) {
            return false;
        }
    }
}

/* The next that is not a heartbeat. Any number of those may lie before it. */
static bool receive(struct world *w, int dev, int ms)
{
    int64_t until = hsp_clock_ns() + (int64_t)ms * 1000000;
    do {
        if (hsp_clock_ns() > until || !next_msg(w, dev, ms)) {
            return false;
        }
    } while (w->last.type == HSP_MSG_HEARTBEAT);
    switch (w->last.type) {
    case HSP_MSG_STEP: note_step(w, &w->last.u.step); break;
    case HSP_MSG_FINISHED: w->finished = true; break;
    case HSP_MSG_CHECKPOINTED:
        if (!w->last.u.ckpt.complete && !w->unwritable) {
            fail_msg("checkpoint: %s", w->last.u.ckpt.reason);
        }
        w->n_ckpt += w->last.u.ckpt.complete;
        w->n_unwritten += !w->last.u.ckpt.complete;
        break;
    case HSP_MSG_PREPARE_FAILED: fail_msg("device %d: %s", dev, w->last.u.failed.reason); break;
    case HSP_MSG_JOB_FAILED: fail_msg("device %d: %s", dev, w->last.u.jobfail.reason); break;
    default: break;
    }
    return true;
}

static void await_beat(struct world *w, int dev)
{
    do {
        assert_true(next_msg(w, dev, WAIT_MS));
    } while (w->last.type != HSP_MSG_HEARTBEAT);
}

static void await(struct world *w, int dev, uint16_t type)
{
    do {
        if (!receive(w, dev, WAIT_MS)) {
            fail_msg("device %d: no %s in time", dev, hsp_msg_name(type));
        }
    } while (w->last.type != type);
}

static void await_step(struct world *w, int dev, uint64_t step)
{
    while (w->stable < step) {
        await(w, dev, HSP_MSG_STEP);
    }
}

static void send_ref(struct world *w, int dev, uint16_t type, uint64_t epoch)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = type, .epoch = epoch, .u.jobref = {.job = 1}};
    assert_ok(hsp_chan_send(&w->ex[dev].chan, &m, &err), &err);
}

static void send_start(struct world *w, int dev, uint64_t epoch, uint64_t step)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = HSP_MSG_START, .epoch = epoch, .u.start = {.job = 1, .step = step}};
    assert_ok(hsp_chan_send(&w->ex[dev].chan, &m, &err), &err);
}

static void start_executor(struct world *w, int dev)
{
    spawn(w, dev);
    await(w, dev, HSP_MSG_EXECUTOR_UP);
    (void)snprintf(w->ex[dev].address, sizeof w->ex[dev].address, "%s", w->last.u.up.address);
}

/* ---- plans and epochs ---- */

static struct hsp_epoch_plan *make_plan(struct world *w, const char *text)
{
    struct hsp_err err = {0};
    struct hsp_plan *plan;
    struct hsp_epoch_plan *ret;
    hsp_device_id device[MAX_DEV];
    for (int i = 0; i < MAX_DEV; i++) {
        device[i] = DEVICE(i);
    }
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", 6, w->arena, &plan, &err), &err);
    assert_ok(hsp_epoch_plan_build(w->graph, &w->job->train, plan, device, 2, (size_t)256 << 20,
                                   &ret, &err),
              &err);
    return ret;
}

struct epoch_def {
    uint64_t epoch, plan_no, from_no, base;
    uint32_t mode;
    uint64_t step;
    const struct hsp_epoch_plan *plan, *from;
    int n_peers; /* devices 0 .. n_peers - 1 */
    int n_live;  /* live pieces of `from` */
    struct hsp_prepare_source live[8];
};

static void send_prepare(struct world *w, const struct epoch_def *d)
{
    struct hsp_err err = {0};
    struct hsp_prepare_peer peers[MAX_DEV];
    struct hsp_prepare_action a = {.n_peers = (uint32_t)d->n_peers, .peers = peers};
    struct hsp_prepare_source live[8];
    const char *names[MAX_DEV] = {"n0/0", "n1/0", "n2/0", "n3/0"};
    struct hsp_package_job pj = {.init_from = "", .config_json = "{}", .ckpt_keep = 2, .term = 1};
    struct hsp_epoch_tables t;
    memcpy(live, d->live, sizeof live);
    a.sources = live;
    a.n_sources = (uint32_t)d->n_live;
    for (int i = 0; i < d->n_peers; i++) {
        peers[i] = (struct hsp_prepare_peer){DEVICE(i), w->ex[i].address};
    }
    assert_ok(hsp_epoch_tables_make(d->plan, d->from, &a, w->arena, &t, &err), &err);
    for (int i = 0; i < d->n_peers; i++) {
        struct hsp_buf blob;
        hsp_buf_init(&blob, HSP_MSG_BLOB_MAX);
        assert_ok(
            hsp_epoch_package(d->plan, &t, &pj, &a, names, (uint32_t)i, w->arena, &blob, &err),
            &err);
        struct hsp_msg m = {.type = HSP_MSG_PREPARE,
                            .epoch = d->epoch,
                            .blob = blob.data,
                            .blob_len = (uint32_t)blob.len,
                            .u.prepare = {.job = 1,
                                          .job_name = "t",
                                          .device = 0,
                                          .rank = (uint32_t)i,
                                          .n_ranks = d->plan->plan->n_ranks,
                                          .n_peers = (uint32_t)d->n_peers,
                                          .mode = d->mode,
                                          .plan = d->plan_no,
                                          .from_plan = d->from_no,
                                          .step = d->step,
                                          .base_epoch = d->base,
                                          .steps = STEPS,
                                          .checkpoint_every = 25,
                                          .key = {(uint8_t)d->epoch, 1, 2, 3},
                                          .data_path = w->text,
                                          .checkpoint_path = w->dir}};
        assert_ok(hsp_chan_send(&w->ex[i].chan, &m, &err), &err);
        hsp_buf_fini(&blob);
    }
}

static void prepare(struct world *w, const struct epoch_def *d)
{
    send_prepare(w, d);
    for (int i = 0; i < d->n_peers; i++) {
        await(w, i, HSP_MSG_READY);
        const struct hsp_m_ready *r = &w->last.u.ready; /* all are on this host */
        uint32_t n = d->plan->plan->n_ranks, others = (uint32_t)i < n ? n - 1 : 0;
        assert_int_equal(r->links_shm + r->links_unix, 2 * others); /* two meshes */
        assert_int_equal(r->links_tls + r->links_tcp, 0);
    }
}

/* ---- the story ---- */

static void write_text(struct world *w)
{
    (void)snprintf(w->text, sizeof w->text, "%s/text", w->dir);
    FILE *f = fopen(w->text, "w");
    assert_non_null(f);
    for (uint64_t i = 0; i < 20000; i++) {
        (void)fputc("etaoin shrdlu\n"[hsp_test_range("text", i, 0, 13)], f);
    }
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct hsp_err err = {0};
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    w->arena = hsp_arena_new((size_t)512 << 20);
    w->msgs = hsp_arena_new((size_t)16 << 20);
    write_text(w);
    assert_ok(hsp_job_parse(job_text, strlen(job_text), "job", w->arena, &w->job, &err), &err);
    assert_ok(hsp_graph_build(&w->job->model, &w->graph, &err), &err);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < MAX_DEV; i++) {
        end(&w->ex[i]);
    }
    hsp_frame_fini(&w->frame);
    (void)hsp_graph_free(w->graph);
    (void)hsp_arena_free(w->arena);
    (void)hsp_arena_free(w->msgs);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static void await_end(struct world *w, int dev)
{
    while (!w->finished) {
        if (!receive(w, dev, WAIT_MS)) {
            fail_msg("no end in time");
        }
    }
    assert_true(w->final);
    assert_int_equal(w->stable, STEPS);
}

/* Losses of one undisturbed device. */
static void reference(struct world *w, double loss[STEPS], double val[STEPS])
{
    struct hsp_epoch_plan *p = make_plan(w, plan_one);
    struct epoch_def d = {
        .epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    start_executor(w, 0);
    prepare(w, &d);
    send_start(w, 0, 1, 0);
    await_end(w, 0);
    memcpy(loss, w->loss, sizeof w->loss);
    memcpy(val, w->val, sizeof w->val);
    memset(w->loss, 0, sizeof w->loss);
    memset(w->val, 0, sizeof w->val);
    end(&w->ex[0]);
    w->stable = 0;
    w->final = w->finished = false;
    w->n_ckpt = 0;
    (void)hsp_epoch_plan_free(p);
    struct hsp_err err = {0};
    char notes[PATH_MAX];
    hsp_segname_notes(w->ex[0].state_dir, 1, 0, notes);
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 1, &err), &err);
    assert_int_equal(access(notes, F_OK), 0); /* layout 1 is kept, and with it the notes */
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 0, &err), &err);
    assert_int_equal(access(notes, F_OK), -1);
}

static void assert_same(const double *a, const double *b)
{
    for (int i = 0; i < STEPS; i++) {
        if (isnan(a[i]) && isnan(b[i])) {
            continue;
        }
        if (!(fabs(a[i] - b[i]) <= 1e-9 * fabs(a[i]))) {
            fail_msg("step %d: %.17g, undisturbed %.17g", i, b[i], a[i]);
        }
    }
}

/* Epoch 11: data parallel on executors 0 and 1, until step 15. */
static void begin_on_two(struct world *w, struct hsp_epoch_plan *dp)
{
    for (int i = 0; i < 3; i++) {
        start_executor(w, i);
    }
    struct epoch_def first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    prepare(w, &first);
    send_start(w, 0, 11, 0);
    send_start(w, 1, 11, 0);
    await_step(w, 0, 15);
}

/* Epoch 12: a planned switch to a pipeline on all three, five steps of it, and what was before is
 * released. */
static void switch_to_three(struct world *w, struct hsp_epoch_plan *dp, struct hsp_epoch_plan *pp)
{
    struct hsp_err err = {0};
    struct epoch_def second = {.epoch = 12,
                               .plan_no = 2,
                               .from_no = 1,
                               .base = 11,
                               .mode = HSP_MODE_SWITCH,
                               .plan = pp,
                               .from = dp,
                               .n_peers = 3,
                               .n_live = 2,
                               .live = {{0, 0, 0}, {1, 1, 1}}};
    prepare(w, &second);
    send_ref(w, 0, HSP_MSG_ARM, 12);
    send_ref(w, 1, HSP_MSG_ARM, 12);
    await(w, 2, HSP_MSG_STARTED);
    assert_true(w->last.u.started.transfer_bytes > 0);
    uint64_t began = w->last.u.started.step;
    assert_true(began > 15);
    await_step(w, 0, began + 5);
    for (int i = 0; i < 3; i++) {
        struct hsp_msg m = {
            .type = HSP_MSG_RELEASE, .epoch = 12, .u.release = {.job = 1, .keep_plan = 2}};
        assert_ok(hsp_chan_send(&w->ex[i].chan, &m, &err), &err);
        await(w, i, HSP_MSG_RELEASED);
    }
}

/* Executor 1 is killed, the others seal. Returns the greatest version of which all three have their
 * own part in memory. */
static uint64_t lose_one(struct world *w)
{
    struct hsp_m_holding *held = NULL;
    uint32_t n_held = 0;
    struct hsp_err err = {0};
    uint64_t version = UINT64_MAX;
    end(&w->ex[1]);
    await(w, 0, HSP_MSG_PEER_LOST);
    send_ref(w, 0, HSP_MSG_SEAL, 13);
    send_ref(w, 2, HSP_MSG_SEAL, 13);
    await(w, 0, HSP_MSG_SEALED);
    await(w, 2, HSP_MSG_SEALED);
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
    assert_true(version >= w->stable);
    return version;
}

/* Epoch 14: the pipeline goes on at @version with a new process of executor 1, to the end. */
static void recover_and_end(struct world *w, struct hsp_epoch_plan *pp, uint64_t version)
{
    start_executor(w, 1);
    struct epoch_def third = {.epoch = 14,
                              .plan_no = 2,
                              .from_no = 2,
                              .mode = HSP_MODE_RECOVER,
                              .step = version,
                              .plan = pp,
                              .from = pp,
                              .n_peers = 3,
                              .n_live = 3,
                              .live = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}}};
    prepare(w, &third);
    for (int i = 0; i < 3; i++) {
        send_start(w, i, 14, version);
    }
    await_end(w, 0);
}

static bool has_mapped(const struct world *w, int dev, const char *path)
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

static void test_a_disturbed_run_has_the_losses_of_one_device(void **state)
{
    struct world *w = *state;
    double loss[STEPS], val[STEPS];
    struct hsp_m_holding *held = NULL;
    uint32_t n_held = 0;
    struct hsp_err err = {0};
    reference(w, loss, val);

    struct hsp_epoch_plan *dp = make_plan(w, plan_dp), *pp = make_plan(w, plan_pp);
    begin_on_two(w, dp);
    switch_to_three(w, dp, pp);
    recover_and_end(w, pp, lose_one(w));

    assert_same(loss, w->loss);
    assert_same(val, w->val);
    assert_true(w->n_ckpt >= 1); /* the one at 25 may have been cut short by the kill */
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/t/final/model.safetensors", w->dir);
    assert_int_equal(access(path, R_OK), 0);
    assert_true(has_mapped(w, 0, w->text));
    send_ref(w, 0, HSP_MSG_STOP, 14);
    await(w, 0, HSP_MSG_STOPPED);
    assert_false(has_mapped(w, 0, w->text));
    assert_ok(hsp_segname_scan(w->ex[0].state_dir, &held, &n_held, &err), &err);
    assert_int_equal(n_held, 0);
    free(held);
    (void)hsp_epoch_plan_free(dp);
    (void)hsp_epoch_plan_free(pp);
}

/* A node is gone with all it had: the second copies bring its part back. */
static void test_second_copies_replace_a_lost_node(void **state)
{
    struct world *w = *state;
    double loss[STEPS], val[STEPS];
    struct hsp_err err = {0};
    reference(w, loss, val);
    struct hsp_epoch_plan *pp = make_plan(w, plan_pp), *one = make_plan(w, plan_one);
    for (int i = 0; i < 3; i++) {
        start_executor(w, i);
    }
    struct epoch_def first = {
        .epoch = 21, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = pp, .n_peers = 3};
    prepare(w, &first);
    for (int i = 0; i < 3; i++) {
        send_start(w, i, 21, 0);
    }
    await_step(w, 0, 10);
    end(&w->ex[2]);
    await(w, 0, HSP_MSG_PEER_LOST);
    send_ref(w, 0, HSP_MSG_SEAL, 22);
    send_ref(w, 1, HSP_MSG_SEAL, 22);
    await(w, 0, HSP_MSG_SEALED);
    await(w, 1, HSP_MSG_SEALED);
    struct epoch_def next = {.epoch = 23,
                             .plan_no = 3,
                             .from_no = 1,
                             .mode = HSP_MODE_RECOVER,
                             .step = w->stable,
                             .plan = one,
                             .from = pp,
                             .n_peers = 2,
                             .n_live = 2,
                             .live = {{0, 0, 0}, {1, 1, 1}}};
    for (uint32_t i = 0; i < pp->copies.n; i++) { /* who keeps rank 2's part */
        const struct hsp_state_row *r = &pp->copies.row[i];
        if (r->from == 2 && next.n_live < 8) {
            next.live[next.n_live++] = (struct hsp_prepare_source){r->to, r->to, 2};
            break;
        }
    }
    assert_int_equal(next.n_live, 3);
    prepare(w, &next);
    send_start(w, 0, 23, w->stable);
    send_start(w, 1, 23, w->stable);
    await_end(w, 0);
    assert_same(loss, w->loss);
    assert_same(val, w->val);
    (void)err;
    (void)hsp_epoch_plan_free(pp);
    (void)hsp_epoch_plan_free(one);
}

/* Awaits the next report that something could not be written. */
static void await_unwritten(struct world *w, const char *reason)
{
    for (uint32_t n = w->n_unwritten; w->n_unwritten == n;) {
        await(w, 0, HSP_MSG_CHECKPOINTED);
    }
    assert_int_equal(w->last.u.ckpt.step, STEPS);
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

/* Two devices train to the end, where @final is a file in the way of the folder for the model. */
static struct hsp_epoch_plan *end_without_a_folder(struct world *w, char final[4300])
{
    char path[4300];
    struct hsp_epoch_plan *dp = make_plan(w, plan_dp);
    struct epoch_def d = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    (void)snprintf(path, sizeof path, "%s/t", w->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(final, 4300, "%s/t/final", w->dir);
    int fd = open(final, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    w->unwritable = true;
    start_executor(w, 0);
    start_executor(w, 1);
    prepare(w, &d);
    send_start(w, 0, 41, 0);
    send_start(w, 1, 41, 0);
    await_step(w, 0, STEPS);
    return dp;
}

/* The model cannot be written, first for want of a folder, then only under its name, when all has
 * been gathered: both are told with the remedy, and it is written when they are mended. Nor can one
 * device note its steps: the other does. */
static void test_a_final_model_is_tried_until_it_is_written(void **state)
{
    struct world *w = *state;
    char final[4300], path[4400], notes[PATH_MAX], reason[4600];
    (void)snprintf(notes, sizeof notes, "%s/state-0", w->dir);
    assert_int_equal(mkdir(notes, 0700), 0);
    hsp_segname_notes(notes, 1, 0, path);
    assert_int_equal(mkdir(path, 0700), 0); /* no file can be there */
    struct hsp_epoch_plan *dp = end_without_a_folder(w, final);
    (void)snprintf(reason, sizeof reason,
                   "n0/0: cannot create %s/model.safetensors.tmp: Not a directory; move away what "
                   "is there instead",
                   final);
    await_unwritten(w, reason);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", final);
    assert_int_equal(unlink(final), 0);
    assert_int_equal(mkdir(final, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(reason, sizeof reason,
                   "n0/0: cannot rename %s.tmp: Is a directory; move away what is there instead",
                   path);
    await_unwritten(w, reason);
    assert_int_equal(rmdir(path), 0);
    await(w, 0, HSP_MSG_FINISHED);
    assert_int_equal(count_lines(&w->last), STEPS);
    assert_int_equal(access(path, R_OK), 0);
    (void)hsp_epoch_plan_free(dp);
}

/* Who does not want to wait ends the job. */
static void test_a_job_that_waits_for_its_disk_can_be_ended(void **state)
{
    struct world *w = *state;
    char final[4300];
    struct hsp_epoch_plan *dp = end_without_a_folder(w, final);
    await(w, 0, HSP_MSG_CHECKPOINTED);
    for (int i = 0; i < 2; i++) {
        send_ref(w, i, HSP_MSG_STOP, 41);
        await(w, i, HSP_MSG_STOPPED);
    }
    assert_false(w->finished);
    (void)hsp_epoch_plan_free(dp);
}

/* The data come from where nothing answers (a pipe without a writer): heartbeats go on, and what is
 * prepared can be ended and prepared again. When the data are there at last, so is the epoch. */
static void test_data_that_do_not_come_hold_nothing_up(void **state)
{
    struct world *w = *state;
    struct hsp_epoch_plan *p = make_plan(w, plan_one);
    struct epoch_def d = {
        .epoch = 31, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    start_executor(w, 0);
    assert_int_equal(unlink(w->text), 0);
    assert_int_equal(mkfifo(w->text, 0600), 0);
    send_prepare(w, &d);
    await_beat(w, 0);
    await_beat(w, 0);
    send_ref(w, 0, HSP_MSG_DROP, 31);
    d.epoch = 32;
    send_prepare(w, &d);
    await_beat(w, 0);
    send_ref(w, 0, HSP_MSG_STOP, 32);
    await(w, 0, HSP_MSG_STOPPED);
    int fd = open(w->text, O_WRONLY | O_CLOEXEC); /* the first reading meets it */
    assert_true(fd >= 0);
    assert_int_equal(unlink(w->text), 0);
    write_text(w);
    assert_int_equal(close(fd), 0);
    d.epoch = 33;
    prepare(w, &d);
    (void)hsp_epoch_plan_free(p);
}

/* More data than there are addresses for: the node has them, so nobody must say that it has not. */
static void test_data_that_memory_does_not_suffice_for_are_not_absent(void **state)
{
    struct world *w = *state;
    struct hsp_epoch_plan *p = make_plan(w, plan_one);
    struct epoch_def d = {
        .epoch = 41, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    char more[4300];
    if (getenv("HSPMD_VALGRIND") != NULL) {
        (void)hsp_epoch_plan_free(p);
        print_message("not under valgrind: it has fewer addresses, and says so in another way\n");
        return;
    }
    assert_int_equal(truncate(w->text, (off_t)HSP_MAX_DATA_BYTES), 0);
    for (int i = 0; i < 40; i++) { /* 2^47 bytes are 32 of them */
        (void)snprintf(more, sizeof more, "%s/more-%d", w->dir, i);
        assert_int_equal(link(w->text, more), 0);
    }
    (void)snprintf(w->text, sizeof w->text, "%s/more-*", w->dir);
    start_executor(w, 0);
    send_prepare(w, &d);
    do {
        assert_true(next_msg(w, 0, WAIT_MS));
    } while (w->last.type == HSP_MSG_HEARTBEAT);
    assert_int_equal(w->last.type, HSP_MSG_PREPARE_FAILED);
    assert_non_null(strstr(w->last.u.failed.reason, "Cannot allocate memory"));
    assert_int_equal(w->last.u.failed.fact, HSP_FACT_OTHER);
    (void)hsp_epoch_plan_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_disturbed_run_has_the_losses_of_one_device, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_second_copies_replace_a_lost_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_final_model_is_tried_until_it_is_written, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_job_that_waits_for_its_disk_can_be_ended, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_data_that_do_not_come_hold_nothing_up, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_data_that_memory_does_not_suffice_for_are_not_absent,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
