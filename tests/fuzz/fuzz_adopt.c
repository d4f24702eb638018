/* A job adopted from papers that an agent has told: refused with a line, or adopted, and the invariants of the core hold
 * then and later. A digest that chance does not find is put right first. */
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "proto/base/size.h"
#include "proto/wire/papers.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD = 8 + 4 + 8 + 16, MOST = 16 << 20, NODES = 2 };

static struct hsp_cluster *begin(struct hsp_digest id)
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

static struct hsp_actions step(struct hsp_cluster *c, struct hsp_event ev)
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

static const struct hsp_action *find(const struct hsp_actions *acts, enum hsp_action_type type)
{
    const struct hsp_action *found = NULL;
    for (uint32_t i = 0; i < acts->n && found == NULL; i++) {
        found = acts->item[i].type == type ? &acts->item[i] : NULL;
    }
    return found;
}

static void hello(struct hsp_cluster *c, uint32_t node)
{
    static const char *const name[NODES] = {"a", "b"};
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = name[node],
                                    .address = "x",
                                    .n_devices = 1,
                                    .devices = &dev}};
    (void)step(c, (struct hsp_event){
                      .type = HSP_EV_MSG, .conn = node + 1, .random = {7, node + 1}, .u.msg = &m});
}

/* Those of a job that begins on two nodes. */
static void real_papers(struct hsp_buf *out)
{
    struct hsp_cluster *c = begin((struct hsp_digest){1, 2});
    uint64_t mem[NODES] = {0};
    double compute[NODES] = {1, 1}, speed[NODES] = {1, 1};
    uint32_t first[2] = {0, NODES};
    struct hsp_piece_holder piece[NODES] = {{0, 0}, {1, 1}};
    hsp_device_id device[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        hello(c, i);
    }
    struct hsp_actions acts = step(
        c,
        (struct hsp_event){.type = HSP_EV_ADMIN,
                           .u.admin = {.verb = HSP_ADMIN_SUBMIT,
                                       .spec = {.name = "mist", .min = 1, .max = 8, .steps = 9}}});
    const struct hsp_action *ask = find(&acts, HSP_ACT_START_PLAN);
    HSP_ASSERT(ask != NULL && ask->u.plan->n_devices == NODES);
    memcpy(device, ask->u.plan->devices, sizeof device);
    struct hsp_plan_info info = {.n_ranks = NODES,
                                 .device = device,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .speed = speed,
                                 .n_shards = 1,
                                 .shard_first = first,
                                 .pieces = piece,
                                 .why = ""};
    acts = step(c, (struct hsp_event){
                       .type = HSP_EV_PLAN_DONE,
                       .u.plan = {.job = ask->u.plan->job, .ticket = ask->ticket, .info = &info}});
    const struct hsp_action *papers = find(&acts, HSP_ACT_PAPERS);
    HSP_ASSERT(papers != NULL);
    hsp_papers_write(papers->u.papers, out);
    (void)hsp_cluster_free(c);
}

static void put_right(struct hsp_buf *b)
{
    if (b->len < HEAD) {
        return;
    }
    struct hsp_digest d = hsp_hash128(b->data + HEAD, b->len - HEAD);
    struct hsp_buf head;
    hsp_buf_init(&head, HEAD);
    hsp_buf_u64(&head, b->len - HEAD);
    hsp_buf_u64(&head, d.hi);
    hsp_buf_u64(&head, d.lo);
    memcpy(b->data + 12, head.data, head.len);
    hsp_buf_fini(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_buf in;
    struct hsp_papers p;
    struct hsp_err err = {0};
    hsp_buf_init(&in, MOST);
    hsp_buf_append(&in, data, len);
    put_right(&in);
    if (hsp_papers_read(in.data, in.len, hsp_fuzz_arena(), &p, &err) == HSP_OK) {
        struct hsp_cluster *c = begin((struct hsp_digest){3, 4});
        struct hsp_event adopt = {
            .type = HSP_EV_ADMIN,
            .u.admin = {.verb = HSP_ADMIN_ADOPT, .job = p.job, .papers = &p, .force = true}};
        hello(c, 0);
        struct hsp_actions acts = step(c, adopt);
        const struct hsp_action *r = find(&acts, HSP_ACT_REPLY);
        HSP_ASSERT(r != NULL && (r->status == HSP_OK || r->text[0] != '\0'));
        (void)step(c, (struct hsp_event){.now_ms = 100000, .type = HSP_EV_TICK});
        (void)step(c, (struct hsp_event){.now_ms = 200000, .type = HSP_EV_TICK});
        (void)hsp_cluster_free(c);
    }
    hsp_buf_fini(&in);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    if (i == 0) {
        real_papers(out);
    }
    return i == 0;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "adopt", .seed = seed};
