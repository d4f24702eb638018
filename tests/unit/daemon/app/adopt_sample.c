/* Plays a job that begins in a core, and writes its papers. */
#include "tests/unit/daemon/app/adopt_sample.h"

#include <stdio.h>
#include <string.h>

#include "daemon/app/plans/job_record.h"
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/plan/plan_yaml.h"
#include "proto/base/check.h"
#include "tests/unit/proto/wire/papers_sample.h"

#define CAP      ((size_t)64 << 20)
#define ROWS     16u
#define PLAN     "apiVersion: hspmd/v1\nkind: plan\nranks: %u\npipelines:\n  - "
#define ONE_RANK "{sequences: 8, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
#define TWO_RANKS                                                           \
    "{sequences: 5, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}\n" \
    "  - {sequences: 3, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"

struct hsp_cluster *adopt_core(struct hsp_digest id)
{
    struct hsp_cluster_config cfg;
    struct hsp_actions acts;
    struct hsp_err err = {0};
    hsp_cluster_defaults(3000, &cfg);
    cfg.fresh_id = id;
    struct hsp_cluster *c = hsp_cluster_new(&cfg);
    HSP_ASSERT(c != NULL);
    HSP_ASSERT(hsp_cluster_load(c, NULL, 0, 1000, &acts, &err) == HSP_OK);
    return c;
}

struct hsp_actions adopt_step(struct hsp_cluster *c, struct hsp_event ev)
{
    struct hsp_actions acts;
    struct hsp_err err = {0};
    ev.now_ms = ev.now_ms != 0 ? ev.now_ms : 1000;
    if (hsp_cluster_step(c, &ev, &acts, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    hsp_cluster_check(c);
    return acts;
}

const struct hsp_action *adopt_find(const struct hsp_actions *acts, enum hsp_action_type type)
{
    const struct hsp_action *found = NULL;
    for (uint32_t i = 0; i < acts->n && found == NULL; i++) {
        found = acts->item[i].type == type ? &acts->item[i] : NULL;
    }
    return found;
}

void adopt_hello(struct hsp_cluster *c, uint32_t node)
{
    static const char *const name[ADOPT_NODES] = {"a", "b"};
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = name[node],
                                    .address = "x",
                                    .n_devices = 1,
                                    .devices = &dev}};
    (void)adopt_step(
        c, (struct hsp_event){
               .type = HSP_EV_MSG, .conn = node + 1, .random = {7, node + 1}, .u.msg = &m});
}

/* The core of cluster {1, 0}, in which job 1 has begun on a and b; *ret as it tells them to
 * keep. */
static struct hsp_cluster *begun(struct hsp_papers *ret)
{
    struct hsp_cluster *c = adopt_core((struct hsp_digest){1, 0});
    uint64_t mem[ADOPT_NODES] = {0};
    double compute[ADOPT_NODES] = {1, 1}, speed[ADOPT_NODES] = {1, 1};
    uint32_t first[2] = {0, ADOPT_NODES};
    struct hsp_piece_holder piece[ADOPT_NODES] = {{0, 0}, {1, 1}};
    hsp_device_id device[ADOPT_NODES];
    for (uint32_t i = 0; i < ADOPT_NODES; i++) {
        adopt_hello(c, i);
    }
    struct hsp_admin_event submit = {.verb = HSP_ADMIN_SUBMIT,
                                     .spec = {.name = "tiny",
                                              .min = 1,
                                              .max = 8,
                                              .steps = 4,
                                              .data_path = "/srv/text",
                                              .checkpoint_path = "/srv/ckpt"}};
    struct hsp_actions acts =
        adopt_step(c, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = submit});
    const struct hsp_action *ask = adopt_find(&acts, HSP_ACT_START_PLAN);
    HSP_ASSERT(ask != NULL && ask->u.plan->n_devices == ADOPT_NODES);
    memcpy(device, ask->u.plan->devices, sizeof device);
    struct hsp_plan_info info = {.n_ranks = ADOPT_NODES,
                                 .device = device,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .speed = speed,
                                 .n_shards = 1,
                                 .shard_first = first,
                                 .pieces = piece,
                                 .why = ""};
    struct hsp_plan_event done = {.job = ask->u.plan->job, .ticket = ask->ticket, .info = &info};
    acts = adopt_step(c, (struct hsp_event){.type = HSP_EV_PLAN_DONE, .u.plan = done});
    const struct hsp_action *papers = adopt_find(&acts, HSP_ACT_PAPERS);
    HSP_ASSERT(papers != NULL);
    *ret = *papers->u.papers;
    return c;
}

static struct hsp_job_rec *job(const struct adopt_twist *t)
{
    char text[1024];
    struct hsp_job_rec *j = NULL;
    int n = snprintf(text, sizeof text,
                     "apiVersion: hspmd/v1\nname: %s\n"
                     "model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 8}\n"
                     "data: {path: %s}\n"
                     "train: {steps: 4, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}\n"
                     "checkpoint: {path: %s, every_steps: 0}\n",
                     t->name != NULL ? t->name : "tiny", t->data != NULL ? t->data : "/srv/text",
                     t->ckpt != NULL ? t->ckpt : "/srv/ckpt");
    HSP_ASSERT(hsp_job_rec_make("job.yaml", text, (size_t)n, 0, NULL, &j, NULL) == HSP_OK);
    return j;
}

static struct hsp_plan_rec *plan(struct hsp_job_rec *j, const struct adopt_twist *t)
{
    static const char *const names[] = {"a/0", "b/0"};
    static const double compute_s[] = {0.5, 0.25};
    const hsp_device_id device[] = {HSP_DEVICE(0, 0), HSP_DEVICE(t->device ? 7u : 1u, 0)};
    struct hsp_arena *arena = hsp_arena_new(CAP);
    struct hsp_plan *p = NULL;
    struct hsp_plan_rec *r = NULL;
    char text[512];
    int n =
        snprintf(text, sizeof text, PLAN "%s", t->ranks ? 1u : 2u, t->ranks ? ONE_RANK : TWO_RANKS);
    HSP_ASSERT(arena != NULL);
    HSP_ASSERT(hsp_plan_parse(text, (size_t)n, "plan", 8, arena, &p, NULL) == HSP_OK);
    HSP_ASSERT(hsp_plan_rec_make(j, p, device, compute_s, names, "planner", CAP, &r, NULL) ==
               HSP_OK);
    (void)hsp_arena_free(arena);
    return r;
}

void adopt_papers(const struct adopt_twist *t, struct hsp_buf *out)
{
    struct hsp_papers p;
    struct hsp_papers_row row[ROWS];
    struct hsp_buf text[2];
    char key[64];
    struct hsp_cluster *c = begun(&p);
    struct hsp_job_rec *j = job(t);
    struct hsp_plan_rec *r = plan(j, t);
    HSP_ASSERT(p.n + 2 <= ROWS);
    for (uint32_t i = 0; i < p.n; i++) {
        row[i] = p.row[i];
        if (t->one_name && strcmp(row[i].key, "node/1") == 0) {
            row[i].value = p.row[i - 1].value; /* node/0 stands before it, as long */
        }
    }
    for (int i = 0; i < 2; i++) {
        hsp_buf_init(&text[i], CAP);
    }
    hsp_job_rec_encode(j, &text[0]);
    hsp_plan_rec_encode(r, &text[1]);
    (void)snprintf(key, sizeof key, "app/plan/1/%u", t->no ? 2u : 1u);
    row[p.n] = (struct hsp_papers_row){"app/job/1", text[0].data, (uint32_t)text[0].len};
    row[p.n + 1] = (struct hsp_papers_row){key, text[1].data, (uint32_t)text[1].len};
    p.n += t->no_plan ? 1 : 2;
    p.row = row;
    p.epoch += t->epoch;
    p.whose.generation = (uint64_t)t->generation << 32;
    if (t->plain) {
        papers_plain(&p, out);
    } else {
        hsp_papers_write(&p, out);
    }
    hsp_buf_fini(&text[0]);
    hsp_buf_fini(&text[1]);
    (void)hsp_plan_rec_unref(r);
    (void)hsp_job_rec_unref(j);
    (void)hsp_cluster_free(c);
}
