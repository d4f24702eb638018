#include "tests/unit/worker/executor/executor_world.h"

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

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "worker/exec/pace.h"
#include "worker/executor/executor.h"
#include "worker/state/segment_name.h"

#define BEAT_MS 500

/* Device @i is the only device of node @i, so that the state has copies on other nodes. */
#define DEVICE(i) HSP_DEVICE((uint32_t)(i), 0u)

static const char job_form[] =
    "apiVersion: hspmd/v1\nname: t\n"
    "model: {family: gpt, layers: 3, hidden: 16, heads: 2, vocab: 256, sequence: 16, tied_head: "
    "true}\n"
    "data: {path: /none, validation_fraction: 0.1, validation_every: 10}\n"
    "train: {steps: 60, global_batch: 6, %s, seed: 3, clip_norm: 1.0,\n"
    "  optimizer: {name: adamw, lr: 3e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1},\n"
    "  schedule: {name: cosine, warmup_steps: 20, min_lr: 3e-4}}\n"
    "resources: {min: 1, max: 4}\ncheckpoint: {path: /none, every_steps: 25, keep: 2}\n";

const char xw_plan_one[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 6, "
    "micro_batches: 1, stages: [{layers: 3, ranks: [0]}]}]}";
const char xw_plan_dp[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 2, zero: 1, pipelines: "
                          "[{sequences: 4, micro_batches: 2, stages: "
                          "[{layers: 3, ranks: [0]}]}, {sequences: 2, micro_batches: 1, "
                          "stages: [{layers: 3, ranks: [1]}]}]}";
const char xw_plan_pp[] = "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: "
                          "6, micro_batches: 3, stages: [{layers: "
                          "1, ranks: [0]}, {layers: 2, ranks: [1, 2], tensor: [1, 1]}]}]}";

/* The options of the mock device of this executor's process. */
static struct hsp_mockdev_opts the_mockdev;

static enum hsp_status open_mockdev(const struct hsp_executor_opts *o, struct hsp_backend **ret,
                                    struct hsp_err *err)
{
    (void)o;
    return hsp_mockdev_open(&the_mockdev, ret, err);
}

static void choose_mockdev(struct xw_world *w, int dev)
{
    static uint64_t n; /* number of processes so far */
    uint64_t k = n++;
    the_mockdev = w->mockdev[dev];
    the_mockdev.seed = hsp_test_rand("mockdev", k);
    the_mockdev.max_delay_us = k % 4 == 0 ? 100 : 0;
    the_mockdev.replay = k % 3 != 0;
}

static void spawn(struct xw_world *w, int dev)
{
    struct xw_process *p = &w->ex[dev];
    int fds[2];
    bool device = w->device && !w->cpu[dev];
    (void)snprintf(p->state_dir, sizeof p->state_dir, "%s/state-%d", w->dir, dev);
    (void)mkdir(p->state_dir, 0700);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    choose_mockdev(w, dev);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        char node[16];
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int log = w->log == NULL ? -1 : open(w->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)snprintf(node, sizeof node, "n%d", dev);
        struct hsp_executor_opts o = {.fd = fds[1],
                                      .device = 0,
                                      .gpu_index = device ? 0 : -1,
                                      .open = device ? open_mockdev : NULL,
                                      .node = node,
                                      .state_dir = p->state_dir,
                                      .listen = "127.0.0.1",
                                      .speed = w->speed > 0 ? w->speed : 1,
                                      .mem_bytes = 1 << 30,
                                      .threads = 1,
                                      .kill_dir = w->kills,
                                      .heartbeat_ms = BEAT_MS,
                                      .log = w->log == NULL ? hsp_log_new(2, HSP_LOG_WARN)
                                                            : hsp_log_new(log, HSP_LOG_INFO)};
        for (int i = 0; i < XW_MAX_DEV; i++) {
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

void xw_end(struct xw_process *p)
{
    if (p->pid > 0) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        hsp_chan_fini(&p->chan);
        p->pid = 0;
    }
}

int xw_await_exit(struct xw_world *w, int dev)
{
    struct xw_process *p = &w->ex[dev];
    int64_t until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000;
    int status = 0;
    pid_t got = 0;
    while ((got = waitpid(p->pid, &status, WNOHANG)) == 0 && hsp_clock_ns() < until) {
        (void)usleep(1000);
    }
    if (got != p->pid) {
        fail_msg("device %d: its process goes on", dev);
    }
    hsp_chan_fini(&p->chan);
    p->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

const char *xw_log(struct xw_world *w)
{
    (void)snprintf(w->log_file, sizeof w->log_file, "%s/log", w->dir);
    w->log = w->log_file;
    return w->log;
}

uint32_t xw_lines_with(const char *path, const char *what)
{
    char line[2048];
    uint32_t n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        n += strstr(line, what) != NULL ? 1 : 0;
    }
    assert_int_equal(fclose(f), 0);
    return n;
}

/* Records a reported step in @w. When an epoch breaks, its heir (epoch_report.h) reports the newest
 * steps again, maybe one step less than rank 0 has reported. */
static void note_step(struct xw_world *w, uint64_t epoch, const struct hsp_m_step *s)
{
    if (epoch < w->said_in || (epoch == w->said_in && s->step < w->stable)) {
        return;
    }
    w->said_in = epoch;
    w->stable = s->step;
    w->sure = s->step - s->ahead > w->sure ? s->step - s->ahead : w->sure;
    w->final |= s->final;
    if (s->step < XW_STEPS) {
        w->loss[s->step] = s->loss;
        w->val[s->step] = s->val_loss;
    }
}

/* Receives the next message of device @dev in w->last, and records a step. Returns false if none
 * comes within @ms. */
bool xw_next_msg(struct xw_world *w, int dev, int ms)
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
            if (w->last.type == HSP_MSG_STEP) {
                note_step(w, w->last.epoch, &w->last.u.step);
            }
            return true;
        }
        if (poll(&p, 1, ms) == 0) {
            return false;
        }
    }
}

/* Receives the next message that is no heartbeat. Returns false if none comes within @ms. */
static bool receive(struct xw_world *w, int dev, int ms)
{
    int64_t until = hsp_clock_ns() + (int64_t)ms * 1000000;
    do {
        if (hsp_clock_ns() > until || !xw_next_msg(w, dev, ms)) {
            return false;
        }
    } while (w->last.type == HSP_MSG_HEARTBEAT);
    switch (w->last.type) {
    case HSP_MSG_STEP: break; /* recorded already */
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

void xw_await_beat(struct xw_world *w, int dev)
{
    do {
        assert_true(xw_next_msg(w, dev, XW_WAIT_MS));
    } while (w->last.type != HSP_MSG_HEARTBEAT);
}

void xw_await(struct xw_world *w, int dev, uint16_t type)
{
    do {
        if (!receive(w, dev, XW_WAIT_MS)) {
            fail_msg("device %d: no %s in time", dev, hsp_msg_name(type));
        }
    } while (w->last.type != type);
}

void xw_await_step(struct xw_world *w, int dev, uint64_t step)
{
    while (w->stable < step) {
        xw_await(w, dev, HSP_MSG_STEP);
    }
}

void xw_await_standstill(struct xw_world *w, int dev)
{
    int64_t last = hsp_clock_ns();
    while (hsp_clock_ns() - last < 500000000) { /* heartbeats end each wait */
        assert_true(xw_next_msg(w, dev, XW_WAIT_MS));
        last = w->last.type == HSP_MSG_STEP ? hsp_clock_ns() : last;
    }
}

void xw_send_ref(struct xw_world *w, int dev, uint16_t type, uint64_t epoch)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = type, .epoch = epoch, .u.jobref = {.job = 1}};
    assert_ok(hsp_chan_send(&w->ex[dev].chan, &m, &err), &err);
}

void xw_send_start(struct xw_world *w, int dev, uint64_t epoch, uint64_t step)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = HSP_MSG_START, .epoch = epoch, .u.start = {.job = 1, .step = step}};
    assert_ok(hsp_chan_send(&w->ex[dev].chan, &m, &err), &err);
}

void xw_start_executor(struct xw_world *w, int dev)
{
    spawn(w, dev);
    xw_await(w, dev, HSP_MSG_EXECUTOR_UP);
    (void)snprintf(w->ex[dev].address, sizeof w->ex[dev].address, "%s", w->last.u.up.address);
}

static struct hsp_epoch_plan *make_plan(struct xw_world *w, const char *text, bool one_node)
{
    struct hsp_err err = {0};
    struct hsp_plan *plan;
    struct hsp_epoch_plan *ret;
    hsp_device_id device[XW_MAX_DEV];
    for (int i = 0; i < XW_MAX_DEV; i++) {
        device[i] = one_node ? HSP_DEVICE(0u, (uint32_t)i) : DEVICE(i);
    }
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", 6, w->arena, &plan, &err), &err);
    assert_ok(hsp_epoch_plan_build(w->graph, &w->job->train, NULL, plan, device, 2,
                                   (size_t)256 << 20, &ret, &err),
              &err);
    return ret;
}

struct hsp_epoch_plan *xw_make_plan(struct xw_world *w, const char *text)
{
    return make_plan(w, text, false);
}

struct hsp_epoch_plan *xw_make_kept_plan(struct xw_world *w, const char *text)
{
    return make_plan(w, text, true);
}

struct xw_epoch xw_go_on(uint64_t epoch, uint32_t mode, struct xw_layout to, struct xw_layout from,
                         int n_live)
{
    return (struct xw_epoch){.epoch = epoch,
                             .plan_no = to.no,
                             .from_no = from.no,
                             .base = mode == HSP_MODE_SWITCH ? epoch - 1 : 0,
                             .mode = mode,
                             .plan = to.plan,
                             .from = from.plan,
                             .n_peers = 3,
                             .n_live = n_live,
                             .live = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}}};
}

void xw_send_prepare(struct xw_world *w, const struct xw_epoch *d)
{
    struct hsp_err err = {0};
    struct hsp_prepare_peer peers[XW_MAX_DEV];
    struct hsp_prepare_action a = {.n_peers = (uint32_t)d->n_peers,
                                   .peers = peers,
                                   .n_replica_holders = (uint32_t)d->n_keepers};
    struct hsp_prepare_source live[8];
    const char *names[XW_MAX_DEV] = {"n0/0", "n1/0", "n2/0", "n3/0"};
    struct hsp_package_job pj = {.init_from = d->init_from != NULL ? d->init_from : "",
                                 .config_json = "{}",
                                 .ckpt_keep = 2,
                                 .term = 1};
    struct hsp_epoch_tables t;
    memcpy(live, d->live, sizeof live);
    a.sources = live;
    a.n_sources = (uint32_t)d->n_live;
    for (int i = 0; i < d->n_peers; i++) {
        bool member = (uint32_t)i < d->plan->plan->n_ranks;
        peers[i] =
            (struct hsp_prepare_peer){member ? d->plan->device[i] : DEVICE(i), w->ex[i].address};
    }
    assert_ok(hsp_epoch_tables_make(d->plan, d->from, d->net, &a, w->arena, &t, &err), &err);
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
                                          .cluster = w->cluster,
                                          .ckpt_cluster = w->born,
                                          .device = 0,
                                          .rank = (uint32_t)i,
                                          .n_ranks = d->plan->plan->n_ranks,
                                          .n_keepers = (uint32_t)d->n_keepers,
                                          .n_peers = (uint32_t)d->n_peers,
                                          .mode = d->mode,
                                          .plan = d->plan_no,
                                          .from_plan = d->from_no,
                                          .step = d->step,
                                          .void_from = d->void_from - 1,
                                          .base_epoch = d->base,
                                          .steps = w->steps > 0 ? w->steps : XW_STEPS,
                                          .share_notes = !w->older_peers,
                                          .due_every = w->due_every,
                                          .due_overhead = 0.01,
                                          .due_recompute_s = 30,
                                          .live = w->live,
                                          .keeps = d->keep > 0,
                                          .keep = d->keep - 1,
                                          .checkpoint_every = 25,
                                          .checkpoint_shared = w->shared,
                                          .key = {(uint8_t)d->epoch, 1, 2, 3},
                                          .data_path = w->text,
                                          .checkpoint_path = d->paths != NULL  ? d->paths[i]
                                                             : d->path != NULL ? d->path
                                                                               : w->dir}};
        if (d->ckpt != NULL) {
            m.u.prepare.ckpt_term = d->ckpt->term;
            m.u.prepare.ckpt_epoch = d->ckpt_epoch;
            m.u.prepare.ckpt_content = d->ckpt->content;
        }
        assert_ok(hsp_chan_send(&w->ex[i].chan, &m, &err), &err);
        hsp_buf_fini(&blob);
    }
}

void xw_prepare(struct xw_world *w, const struct xw_epoch *d)
{
    xw_send_prepare(w, d);
    for (int i = 0; i < d->n_peers; i++) {
        xw_await(w, i, HSP_MSG_READY);
        const struct hsp_m_ready *r = &w->last.u.ready; /* all ranks are on one host */
        uint32_t n = d->plan->plan->n_ranks, last = n + (uint32_t)d->n_keepers;
        uint32_t data = (uint32_t)i < n ? n - 1 : 0, state = (uint32_t)i < last ? last - 1 : 0;
        assert_int_equal(r->links_shm + r->links_unix, data + state);
        assert_int_equal(r->links_tls + r->links_tcp, 0);
    }
}

void xw_await_end(struct xw_world *w, int dev)
{
    while (!w->finished) {
        if (!receive(w, dev, XW_WAIT_MS)) {
            fail_msg("no end in time");
        }
    }
    assert_true(w->final);
    assert_int_equal(w->stable, XW_STEPS);
}

void xw_reference(struct xw_world *w, double loss[XW_STEPS], double val[XW_STEPS])
{
    struct hsp_epoch_plan *p = xw_make_plan(w, xw_plan_one);
    struct xw_epoch d = {.epoch = 1, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = p, .n_peers = 1};
    xw_start_executor(w, 0);
    xw_prepare(w, &d);
    xw_send_start(w, 0, 1, 0);
    xw_await_end(w, 0);
    memcpy(loss, w->loss, sizeof w->loss);
    memcpy(val, w->val, sizeof w->val);
    memset(w->loss, 0, sizeof w->loss);
    memset(w->val, 0, sizeof w->val);
    xw_end(&w->ex[0]);
    w->stable = w->said_in = w->sure = 0;
    w->final = w->finished = false;
    w->n_ckpt = 0;
    (void)hsp_epoch_plan_free(p);
    struct hsp_err err = {0};
    char notes[PATH_MAX];
    hsp_segname_notes(w->ex[0].state_dir, 1, 0, notes);
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 1, &err), &err);
    assert_int_equal(access(notes, F_OK), 0); /* layout 1 and the notes still exist */
    assert_ok(hsp_segname_discard(w->ex[0].state_dir, 1, 0, 0, &err), &err);
    assert_int_equal(access(notes, F_OK), -1);
}

void xw_assert_same(const double *a, const double *b)
{
    for (int i = 0; i < XW_STEPS; i++) {
        if (isnan(a[i]) && isnan(b[i])) {
            continue;
        }
        if (!(fabs(a[i] - b[i]) <= 1e-9 * fabs(a[i]))) {
            fail_msg("step %d: %.17g, undisturbed %.17g", i, b[i], a[i]);
        }
    }
}

void xw_write_text(struct xw_world *w)
{
    (void)snprintf(w->text, sizeof w->text, "%s/text", w->dir);
    FILE *f = fopen(w->text, "w");
    assert_non_null(f);
    for (uint64_t i = 0; i < 20000; i++) {
        (void)fputc("etaoin shrdlu\n"[hsp_test_range("text", i, 0, 13)], f);
    }
    assert_int_equal(fclose(f), 0);
}

/* Makes the job. @types: element types of the state and of computing, in YAML. */
static void make_job(struct xw_world *w, const char *types)
{
    struct hsp_err err = {0};
    const char *text = hsp_arena_printf(w->arena, job_form, types);
    assert_non_null(text);
    assert_ok(hsp_job_parse(text, strlen(text), "job", w->arena, &w->job, &err), &err);
    assert_ok(hsp_graph_build(&w->job->model, &w->graph, &err), &err);
}

void xw_compute(struct xw_world *w, const char *compute)
{
    (void)hsp_graph_free(w->graph);
    make_job(w, hsp_arena_printf(w->arena, "dtype: fp32, compute: %s", compute));
}

bool xw_on_device;

int xw_setup(void **state)
{
    struct xw_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    w->arena = hsp_arena_new((size_t)512 << 20);
    w->msgs = hsp_arena_new((size_t)16 << 20);
    xw_write_text(w);
    make_job(w, "dtype: fp64");
    w->device = xw_on_device;
    *state = w;
    return 0;
}

int xw_setup_device(void **state)
{
    int rc = xw_setup(state);
    ((struct xw_world *)*state)->device = true;
    return rc;
}

int xw_teardown(void **state)
{
    struct xw_world *w = *state;
    for (int i = 0; i < XW_MAX_DEV; i++) {
        xw_end(&w->ex[i]);
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
