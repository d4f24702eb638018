/* Times switches of 100 MB of state between two layouts on four executor processes, and the mesh's
 * point-to-point bandwidth beside them: switchbench ROUNDS.
 *
 * Prints one line of JSON. For each switch it has the bytes received; the milliseconds of the
 * slowest rank, from the version that is transferred until the new segments are sealed; the phases
 * of that time (transfer of the weights, after which a forward may begin; transfer of the
 * optimizer's state; seal); and the pause between the last step report before the switch and the
 * first one after it. For each stream between two processes it has the bytes per second. The
 * executors are real; the test plays coordinator and agent (tests/unit/worker/executor). The job
 * has much state and few tokens, because its first step may run during the transfer and its time
 * must not count. tests/claims/switch-bandwidth reads the line. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/exec/pace.h"

#define MAX_ROUNDS   16
#define STREAM_BYTES ((size_t)100 << 20)
#define STREAM_CHUNK ((size_t)1 << 20)

static const char job[] =
    "apiVersion: hspmd/v1\nname: t\n"
    "model: {family: gpt, layers: 4, hidden: 416, heads: 8, vocab: 256, sequence: 4, tied_head: "
    "true}\n"
    "data: {path: /none}\n"
    "train: {steps: 60, global_batch: 1, optimizer: {name: adamw, lr: 1e-3}}\n"
    "resources: {min: 1, max: 4}\n";

#define HEAD                                                                                     \
    "{apiVersion: hspmd/v1, kind: plan, ranks: 4, pipelines: [{sequences: 1, micro_batches: 1, " \
    "stages: ["
static const char *const layouts[][2] = {
    {"pipeline", HEAD "{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}, "
                      "{layers: 1, ranks: [3]}]}]}"},
    {"pipeline, turned",
     HEAD "{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}, {layers: 1, ranks: "
          "[3]}, {layers: 1, ranks: [0]}]}]}"},
    {"tensors", HEAD "{layers: 4, ranks: [0, 1, 2, 3], tensor: [1, 1, 1, 1]}]}]}"},
};

/* ---- one stream ---- */

struct board { /* shared by two processes */
    atomic_uint ready, failed;
    char address[2][HSP_MESH_ADDRESS];
    double seconds[MAX_ROUNDS];
};

static void meet(struct board *b, uint32_t k)
{
    atomic_fetch_add(&b->ready, 1);
    while (atomic_load(&b->ready) < 2 * k && atomic_load(&b->failed) == 0) {
        (void)usleep(50);
    }
}

static enum hsp_status join(struct board *b, uint32_t rank, struct hsp_mesh_listener **l,
                            struct hsp_comm **ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_AUTO, l, err);
    if (st != HSP_OK) {
        return st;
    }
    (void)snprintf(b->address[rank], HSP_MESH_ADDRESS, "%s", hsp_mesh_listener_address(*l));
    meet(b, 1);
    const struct hsp_mesh_peer peers[2] = {{.name = "bench", .address = b->address[0]},
                                           {.name = "bench", .address = b->address[1]}};
    const struct hsp_mesh_params p = {.job = 1,
                                      .epoch = 1,
                                      .rank = rank,
                                      .n = 2,
                                      .peers = peers,
                                      .timeout_ms = 20000,
                                      .cancel_fd = -1};
    return hsp_mesh_connect(*l, &p, ret, err);
}

/* Rank 0 sends, rank 1 receives and answers, as when state moves from memory to memory. */
static enum hsp_status stream(struct board *b, struct hsp_comm *c, uint32_t rounds, uint8_t *mem,
                              struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < rounds; k++) {
        meet(b, 2 + k);
        int64_t begin = hsp_clock_ns();
        for (size_t at = 0; st == HSP_OK && at < STREAM_BYTES; at += STREAM_CHUNK) {
            st = c->rank == 0 ? c->ops->send(c, 1, 1, mem + at, STREAM_CHUNK, err)
                              : c->ops->recv(c, 0, 1, mem + at, STREAM_CHUNK, err);
        }
        uint8_t done = 1;
        if (st == HSP_OK) {
            st = c->rank == 0 ? c->ops->recv(c, 1, 2, &done, 1, err)
                              : c->ops->send(c, 0, 2, &done, 1, err);
        }
        b->seconds[k] = c->rank == 0 ? (double)(hsp_clock_ns() - begin) * 1e-9 : b->seconds[k];
    }
    return st;
}

static int run_rank(struct board *b, uint32_t rank, uint32_t rounds)
{
    struct hsp_mesh_listener *l = NULL;
    struct hsp_comm *c = NULL;
    struct hsp_err err = {0};
    uint8_t *mem = malloc(STREAM_BYTES);
    enum hsp_status st = mem != NULL ? join(b, rank, &l, &c, &err) : HSP_ENOMEM;
    if (st == HSP_OK) {
        memset(mem, (int)rank, STREAM_BYTES);
        st = stream(b, c, rounds, mem, &err);
    }
    if (st != HSP_OK) {
        (void)fprintf(stderr, "switchbench: stream: %s\n", err.msg);
        atomic_store(&b->failed, 1);
    }
    if (c != NULL) {
        c->ops->close(c);
    }
    hsp_mesh_listener_close(l);
    free(mem);
    return st == HSP_OK ? 0 : 1;
}

static void measure_streams(uint32_t rounds, const char *key)
{
    struct board *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    (void)fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run_rank(b, 1, rounds));
    }
    int status = 0, own = run_rank(b, 0, rounds);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(own + status, 0);
    (void)printf("\"%s\": [", key);
    for (uint32_t k = 0; k < rounds; k++) {
        (void)printf("%s%.0f", k > 0 ? ", " : "", (double)STREAM_BYTES / b->seconds[k]);
    }
    (void)printf("]");
    (void)munmap(b, sizeof *b);
}

/* ---- switches ---- */

struct bench {
    struct xw_world *w;
    struct hsp_epoch_plan *plan[3];
    uint64_t epoch, plan_no;
};

static void make_plans(struct bench *b)
{
    struct hsp_err err = {0};
    struct xw_world *w = b->w;
    hsp_device_id device[4];
    for (uint32_t i = 0; i < 4; i++) {
        device[i] = HSP_DEVICE(i, 0u);
    }
    w->graph = hsp_graph_free(w->graph);
    assert_ok(hsp_job_parse(job, strlen(job), "job", w->arena, &w->job, &err), &err);
    assert_ok(hsp_graph_build(&w->job->model, &w->graph, &err), &err);
    for (int i = 0; i < 3; i++) {
        struct hsp_plan *p = NULL;
        const char *text = layouts[i][1];
        assert_ok(hsp_plan_parse(text, strlen(text), "plan", 1, w->arena, &p, &err), &err);
        assert_ok(hsp_epoch_plan_build(w->graph, &w->job->train, NULL, p, device, 1,
                                       (size_t)256 << 20, &b->plan[i], &err),
                  &err);
    }
}

static void begin(struct bench *b)
{
    const struct xw_epoch d = {.epoch = b->epoch,
                               .plan_no = b->plan_no,
                               .mode = HSP_MODE_FRESH,
                               .plan = b->plan[0],
                               .n_peers = 4};
    for (int i = 0; i < 4; i++) {
        xw_start_executor(b->w, i);
    }
    xw_prepare(b->w, &d);
    for (int i = 0; i < 4; i++) {
        xw_send_start(b->w, i, b->epoch, 0);
    }
    xw_await_step(b->w, 0, 2);
}

/* Switches from the running layout @from to layout @to. */
static void switch_to(struct bench *b, int from, int to, bool first)
{
    struct xw_world *w = b->w;
    struct hsp_err err = {0};
    struct xw_epoch d = {.epoch = b->epoch + 1,
                         .plan_no = b->plan_no + 1,
                         .from_no = b->plan_no,
                         .base = b->epoch,
                         .mode = HSP_MODE_SWITCH,
                         .plan = b->plan[to],
                         .from = b->plan[from],
                         .n_peers = 4,
                         .n_live = 4,
                         .live = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}}};
    double bytes = 0, ms = 0, weights = 0, optimizer = 0, seal = 0;
    xw_prepare(w, &d);
    for (int i = 0; i < 4; i++) {
        xw_send_ref(w, i, HSP_MSG_ARM, d.epoch);
    }
    int64_t last = 0, until = hsp_clock_ns() + (int64_t)XW_WAIT_MS * 1000000;
    for (int i = 0; i < 4; i++) { /* rank 0 reports its steps until it has started */
        do {
            last = i == 0 ? hsp_clock_ns() : last;
            assert_true(xw_next_msg(w, i, XW_WAIT_MS) && last < until);
            w->stable = w->last.type == HSP_MSG_STEP ? w->last.u.step.step : w->stable;
        } while (w->last.type != HSP_MSG_STARTED);
        const struct hsp_m_started *s = &w->last.u.started;
        bytes += (double)s->transfer_bytes;
        ms = s->transfer_ms > ms ? s->transfer_ms : ms;
        weights = s->weights_ms > weights ? s->weights_ms : weights;
        optimizer = s->optimizer_ms > optimizer ? s->optimizer_ms : optimizer;
        seal = s->seal_ms > seal ? s->seal_ms : seal;
    }
    xw_await_step(w, 0, w->stable + 1);
    double pause = (double)(hsp_clock_ns() - last) * 1e-6;
    b->epoch++;
    b->plan_no++;
    for (int i = 0; i < 4; i++) {
        struct hsp_msg m = {.type = HSP_MSG_RELEASE,
                            .epoch = b->epoch,
                            .u.release = {.job = 1, .keep_plan = b->plan_no}};
        assert_ok(hsp_chan_send(&w->ex[i].chan, &m, &err), &err);
        xw_await(w, i, HSP_MSG_RELEASED);
    }
    (void)printf("%s{\"from\": \"%s\", \"to\": \"%s\", \"bytes\": %.0f, \"ms\": %.3f, "
                 "\"weights_ms\": %.3f, \"optimizer_ms\": %.3f, \"seal_ms\": %.3f, \"pause_ms\": "
                 "%.3f}",
                 first ? "" : ", ", layouts[from][0], layouts[to][0], bytes, ms, weights, optimizer,
                 seal, pause);
}

int main(int argc, char **argv)
{
    struct bench b = {.epoch = 1, .plan_no = 1};
    void *state = NULL;
    uint32_t rounds = argc > 1 ? (uint32_t)strtol(argv[1], NULL, 10) : 3;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    (void)printf("{");
    measure_streams(rounds, "stream_before");
    assert_int_equal(xw_setup(&state), 0);
    b.w = state;
    b.w->steps = 1000000; /* ends before that */
    make_plans(&b);
    begin(&b);
    (void)printf(", \"switches\": [");
    for (uint32_t k = 0; k < rounds; k++) { /* round trips over all three */
        switch_to(&b, 0, 1, k == 0);
        switch_to(&b, 1, 2, false);
        switch_to(&b, 2, 0, false);
    }
    (void)printf("], ");
    for (int i = 0; i < 3; i++) {
        (void)hsp_epoch_plan_free(b.plan[i]);
    }
    (void)xw_teardown(&state);
    measure_streams(rounds, "stream_after");
    (void)printf("}\n");
    return 0;
}
