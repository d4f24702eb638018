/* Adopts a job from papers that an agent has told: refused with a line, or adopted, and the
 * invariants of the core hold then and later. Rows that the shell has read it can take, once the
 * core has. A digest that chance does not find is put right first. */
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/adoption.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/cluster_step.h"
#include "proto/base/size.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/daemon/app/adopt_sample.h"

enum { HEAD = 8 + 4 + 8 + 16, MOST = 16 << 20 };

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

/* True: the core has adopted it. */
static bool adopt(struct hsp_cluster *c, const struct hsp_papers *p)
{
    struct hsp_actions acts =
        adopt_step(c, (struct hsp_event){.type = HSP_EV_ADMIN,
                                         .u.admin = {.verb = HSP_ADMIN_ADOPT,
                                                     .job = p->job,
                                                     .papers = p,
                                                     .node = "a",
                                                     .reason = "a: generation 0, epoch 1",
                                                     .force = true}});
    const struct hsp_action *r = adopt_find(&acts, HSP_ACT_REPLY);
    HSP_ASSERT(r != NULL && r->text[0] != '\0');
    return r->status == HSP_OK;
}

static void by_the_core(const struct hsp_papers *p)
{
    struct hsp_cluster *c = adopt_core((struct hsp_digest){3, 4});
    adopt_hello(c, 0);
    (void)adopt(c, p);
    (void)adopt_step(c, (struct hsp_event){.now_ms = 100000, .type = HSP_EV_TICK});
    (void)adopt_step(c, (struct hsp_event){.now_ms = 200000, .type = HSP_EV_TICK});
    (void)hsp_cluster_free(c);
}

static bool row_of_ours(void *ctx, const char *key, const struct hsp_buf *value)
{
    (void)ctx;
    HSP_ASSERT(strncmp(key, "app/", 4) == 0 && value->len > 0);
    return true;
}

static void by_the_shell(const struct hsp_buf *in, const struct hsp_papers *p)
{
    struct hsp_app app = {.cluster = adopt_core((struct hsp_digest){3, 4})};
    struct hsp_adoption *x = calloc(1, sizeof *x);
    struct hsp_err err = {0};
    HSP_ASSERT(x != NULL);
    x->job = p->job;
    x->cluster = p->whose.cluster;
    x->n_asked = 1;
    x->holder = calloc(1, sizeof *x->holder);
    HSP_ASSERT(x->holder != NULL);
    adopt_hello(app.cluster, 0);
    enum hsp_status st = hsp_adoption_consider(x, x->holder, in->data, (uint32_t)in->len, &err);
    HSP_ASSERT(st == HSP_OK);
    st = hsp_adoption_read(x, app.cluster, &err);
    HSP_ASSERT(st == HSP_OK || (err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL));
    if (st == HSP_OK && adopt(app.cluster, &x->papers)) {
        HSP_ASSERT(hsp_adoption_take(&app, x, row_of_ours, NULL));
        HSP_ASSERT(hsp_app_job_find(&app, p->job) != NULL);
    }
    (void)hsp_adoption_free(x);
    hsp_app_jobs_free(&app);
    (void)hsp_cluster_free(app.cluster);
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
        by_the_core(&p);
        by_the_shell(&in, &p);
    }
    hsp_buf_fini(&in);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const struct adopt_twist twist[] = {
        {.generation = 0}, {.generation = 1u << 20}, {.device = true},     {.ranks = true},
        {.no = true},      {.one_name = true},       {.ckpt = "/tmp/mine"}};
    if (i < HSP_ARRAY_LEN(twist)) {
        struct adopt_twist t = twist[i];
        t.plain = i > 0; /* so that a changed byte is one of a row */
        adopt_papers(&t, out);
    }
    return i < HSP_ARRAY_LEN(twist);
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "adopt", .seed = seed};
