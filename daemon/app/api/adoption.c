#include "daemon/app/api/adoption.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/adopt.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/check.h"
#include "proto/base/size.h"

#define ARENA ((size_t)64 << 20)
/* The newest job record may be ahead of the second newest by at most FAR generations; a larger gap
 * is not believed without --from. A smaller gap is possible, since each adopted job raises the
 * generation by one, and the other agents may have been away during those adoptions. */
#define FAR   256u
#define NAMES 5u /* in a text */

struct hsp_adoption *hsp_adoption_free(struct hsp_adoption *x)
{
    if (x != NULL) {
        for (size_t i = 0; i < x->n_plans; i++) {
            (void)hsp_plan_rec_unref(x->plans[i].rec);
        }
        (void)hsp_job_rec_unref(x->rec);
        (void)hsp_arena_free(x->arena);
        free(x->plans);
        free(x->holder);
        free(x->data);
        free(x);
    }
    return NULL;
}

/* ---- the papers ---- */

static enum hsp_status read_plan(struct hsp_adoption *x, const struct hsp_papers_row *r,
                                 struct hsp_err *err)
{
    struct hsp_adoption_plan *p = &x->plans[x->n_plans];
    unsigned id = 0;
    if (sscanf(r->key, "app/plan/%u/%" SCNu64, &id, &p->no) != 2 || id != x->job) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_plan_rec_decode(r->value, r->len, x->rec, &p->rec, err);
    x->n_plans += st == HSP_OK;
    return st;
}

/* Returns true if the core's row and the daemon's own row describe the same job. */
static enum hsp_status fits(const struct hsp_adoption *x, const struct hsp_cluster *c,
                            struct hsp_err *err)
{
    const struct hsp_job_spec *s = x->rec->spec;
    const struct hsp_job_terms t = {
        .name = s->name, .data_path = s->data_path, .checkpoint_path = s->ckpt_path};
    struct hsp_adopted_plan *plan = calloc(x->n_plans + 1, sizeof *plan);
    if (plan == NULL) {
        return hsp_err_nomem(err, "the plans of a job");
    }
    for (size_t i = 0; i < x->n_plans; i++) {
        const struct hsp_plan_rec *r = x->plans[i].rec;
        plan[i] = (struct hsp_adopted_plan){x->plans[i].no, r->n_ranks, r->device};
    }
    enum hsp_status st = hsp_ci_papers_fit(c, &x->papers, &t, (uint32_t)x->n_plans, plan, err);
    free(plan);
    return st;
}

enum hsp_status hsp_adoption_read(struct hsp_adoption *x, const struct hsp_cluster *c,
                                  struct hsp_err *err)
{
    char key[64];
    enum hsp_status st = HSP_OK;
    (void)snprintf(key, sizeof key, "app/job/%" PRIu32, x->job);
    x->plans = calloc((size_t)x->papers.n + 1, sizeof *x->plans);
    if (x->plans == NULL) {
        return hsp_err_nomem(err, "the plans of a job");
    }
    for (uint32_t i = 0; st == HSP_OK && i < x->papers.n; i++) {
        const struct hsp_papers_row *r = &x->papers.row[i];
        if (x->rec == NULL && strcmp(r->key, key) == 0) {
            st = hsp_job_rec_decode(r->value, r->len, &x->rec, err);
        }
    }
    if (st == HSP_OK && x->rec == NULL) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "the record of job %" PRIu32 " has no job file",
                         x->job);
    }
    for (uint32_t i = 0; st == HSP_OK && i < x->papers.n; i++) {
        st = read_plan(x, &x->papers.row[i], err);
    }
    return st == HSP_OK ? fits(x, c, err) : st;
}

/* Returns the digest of the row that has the job file; 0: there is none. */
static struct hsp_digest job_file(const struct hsp_papers *p)
{
    char key[64];
    (void)snprintf(key, sizeof key, "app/job/%" PRIu32, p->job);
    for (uint32_t i = 0; i < p->n; i++) {
        if (strcmp(p->row[i].key, key) == 0) {
            return hsp_hash128(p->row[i].value, p->row[i].len);
        }
    }
    return (struct hsp_digest){0, 0};
}

enum hsp_status hsp_adoption_consider(struct hsp_adoption *x, struct hsp_adoption_holder *h,
                                      const uint8_t *data, uint32_t len, struct hsp_err *err)
{
    struct hsp_papers p;
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    uint8_t *copy = malloc((size_t)len + 1);
    enum hsp_status st =
        arena != NULL && copy != NULL ? HSP_OK : hsp_err_nomem(err, "a job record");
    if (st == HSP_OK) {
        memcpy(copy, data, len);
        st = hsp_papers_read(copy, len, arena, &p, err);
    }
    bool other =
        st == HSP_OK && (p.job != x->job || !hsp_digest_equal(p.whose.cluster, x->cluster));
    if (other) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "it has those of another job");
    }
    if (st == HSP_OK) {
        h->told = true;
        h->generation = p.whose.generation;
        h->epoch = p.epoch;
        h->papers = p.rows;
        h->job_file = job_file(&p);
        uint32_t g = hsp_generation_number(p.whose.generation);
        uint32_t best = x->data != NULL ? hsp_generation_number(x->papers.whose.generation) : 0;
        if (x->data == NULL || g > best || (g == best && p.epoch > x->papers.epoch)) {
            free(x->data);
            (void)hsp_arena_free(x->arena);
            x->data = copy;
            x->len = len;
            x->arena = arena;
            x->papers = p;
            return HSP_OK;
        }
    }
    free(copy);
    (void)hsp_arena_free(arena);
    return st;
}

/* ---- whom to believe ---- */

static int downwards(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

/* Orders holders so that those with equal job records are neighbours. */
static int newest_first(const void *left, const void *right)
{
    const struct hsp_adoption_holder *a = left, *b = right;
    int order[] = {
        downwards(a->told, b->told),
        downwards(hsp_generation_number(a->generation), hsp_generation_number(b->generation)),
        downwards(a->epoch, b->epoch), downwards(a->papers.hi, b->papers.hi),
        downwards(a->papers.lo, b->papers.lo)};
    for (size_t i = 0; i < HSP_ARRAY_LEN(order); i++) {
        if (order[i] != 0) {
            return order[i];
        }
    }
    return 0;
}

/* Returns the number of holders whose job record equals that of the holder at @at, itself included.
 */
static uint32_t agreeing(const struct hsp_adoption *x, uint32_t at)
{
    uint32_t n = 1;
    while (at + n < x->n_asked && newest_first(&x->holder[at], &x->holder[at + n]) == 0) {
        n++;
    }
    return n;
}

/* Appends the holders from @at on with equal job records, and their epoch. Returns their number. */
static uint32_t put_agreeing(const struct hsp_adoption *x, uint32_t at, struct hsp_buf *out)
{
    const struct hsp_adoption_holder *h = &x->holder[at];
    uint32_t n = agreeing(x, at);
    for (uint32_t i = 0; i < n && i < NAMES; i++) {
        hsp_buf_printf(out, "%s%s", i > 0 ? ", " : "", h[i].name);
    }
    if (n > NAMES) {
        hsp_buf_printf(out, " and %" PRIu32 " more", n - NAMES);
    }
    if (h->told) {
        hsp_buf_printf(out, ": generation %" PRIu32 ", epoch %" PRIu64,
                       hsp_generation_number(h->generation), h->epoch);
    } else {
        hsp_buf_puts(out, ": no job record");
    }
    return n;
}

/* Returns the reason why the newest job record, which @n holders sent, cannot be taken; NULL if it
 * can be taken. */
static const char *doubt(const struct hsp_adoption *x, uint32_t n)
{
    const struct hsp_adoption_holder *h = x->holder, *next = &h[n];
    bool others = n < x->n_asked, told = others && next->told;
    if (x->from[0] != '\0') {
        return told ? "several agents claim to be that node; choose one with --from ADDRESS" : NULL;
    }
    for (uint32_t i = n; told && i < x->n_asked && h[i].told; i++) {
        if (!hsp_digest_equal(h[i].job_file, h->job_file)) {
            return "the job files differ; choose one with --from NODE";
        }
    }
    uint32_t g = hsp_generation_number(h->generation);
    uint32_t next_g = told ? hsp_generation_number(next->generation) : g;
    return told && g == next_g && h->epoch == next->epoch
               ? "the newest job records differ; choose one with --from NODE"
           : g - next_g > FAR
               ? "the newest job record has a far newer generation; choose one with --from NODE"
           : others && n == 1
               ? "only one agent has the newest job record; choose one with --from NODE"
               : NULL;
}

enum hsp_status hsp_adoption_judge(struct hsp_adoption *x, struct hsp_buf *out)
{
    qsort(x->holder, x->n_asked, sizeof *x->holder, newest_first);
    const char *why = doubt(x, agreeing(x, 0));
    if (why == NULL) {
        x->n_taken = put_agreeing(x, 0, out);
        return HSP_OK;
    }
    hsp_buf_printf(out, "job %" PRIu32 ": %s", x->job, why);
    for (uint32_t at = 0; at < x->n_asked && out->len < HSP_TEXT_MAX;) {
        hsp_buf_puts(out, "; ");
        at += put_agreeing(x, at, out);
    }
    return HSP_ESTATE;
}

uint32_t *hsp_adoption_agents(const struct hsp_adoption *x)
{
    uint32_t *agent = calloc((size_t)x->n_taken + 1, sizeof *agent);
    for (uint32_t i = 0; agent != NULL && i < x->n_taken; i++) {
        agent[i] = x->holder[i].agent;
    }
    return agent;
}

/* ---- the core has adopted it ---- */

/* The devices of layout @no here, as the core has numbered them. False: it has dropped the
 * layout. */
static bool move_devices(const struct hsp_job *j, uint64_t no, struct hsp_plan_rec *p)
{
    const struct hsp_job_plan *now = j != NULL ? hsp_ci_plan(j, no) : NULL;
    if (now == NULL) {
        return false;
    }
    HSP_ASSERT(now->info.n_ranks == p->n_ranks); /* hsp_adoption_read has seen to it */
    memcpy(p->device, now->info.device, p->n_ranks * sizeof *p->device);
    return true;
}

bool hsp_adoption_take(struct hsp_app *a, struct hsp_adoption *x, hsp_adoption_row *row, void *ctx)
{
    char key[64];
    struct hsp_buf text;
    hsp_app_job_remove(a, x->job);
    struct hsp_app_job *j = hsp_app_job_add(a, x->job, hsp_job_rec_ref(x->rec));
    hsp_buf_init(&text, HSP_CLUSTER_ROW_MAX);
    hsp_job_rec_encode(x->rec, &text);
    (void)snprintf(key, sizeof key, "app/job/%" PRIu32, x->job);
    bool ok = j != NULL && !text.failed && row(ctx, key, &text);
    for (size_t i = 0; ok && i < x->n_plans; i++) {
        struct hsp_plan_rec *p = x->plans[i].rec;
        if (!move_devices(hsp_cluster_job(a->cluster, x->job), x->plans[i].no, p)) {
            continue;
        }
        hsp_buf_reset(&text);
        hsp_plan_rec_encode(p, &text);
        (void)snprintf(key, sizeof key, "app/plan/%" PRIu32 "/%" PRIu64, x->job, x->plans[i].no);
        ok = !text.failed && row(ctx, key, &text) &&
             hsp_app_plan_add(j, x->plans[i].no, hsp_plan_rec_ref(p));
    }
    hsp_buf_fini(&text);
    return ok;
}
