#include "daemon/app/api/adoption.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/rows.h"

#define ARENA ((size_t)64 << 20)

struct hsp_adoption *hsp_adoption_free(struct hsp_adoption *x)
{
    if (x != NULL) {
        for (size_t i = 0; i < x->n_plans; i++) {
            (void)hsp_plan_rec_unref(x->plans[i].rec);
        }
        (void)hsp_job_rec_unref(x->rec);
        (void)hsp_arena_free(x->arena);
        free(x->plans);
        free(x->asked);
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

/* Each layout of the core has its plan, and each plan a layout. */
static bool plans_complete(const struct hsp_adoption *x)
{
    bool all = true;
    size_t n = 0;
    for (uint32_t i = 0; i < x->papers.n && all; i++) {
        unsigned id = 0;
        uint64_t no = 0;
        bool layout = sscanf(x->papers.row[i].key, "plan/%u/%" SCNu64, &id, &no) == 2;
        bool has = !layout;
        for (size_t k = 0; k < x->n_plans && !has; k++) {
            has = x->plans[k].no == no;
        }
        all = has;
        n += layout;
    }
    return all && n == x->n_plans;
}

enum hsp_status hsp_adoption_read(struct hsp_adoption *x, struct hsp_err *err)
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
        st = hsp_err_set(err, HSP_EPARSE, 0, "the papers of job %" PRIu32 " have no job file",
                         x->job);
    }
    for (uint32_t i = 0; st == HSP_OK && i < x->papers.n; i++) {
        st = read_plan(x, &x->papers.row[i], err);
    }
    if (st == HSP_OK && !plans_complete(x)) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "the papers of job %" PRIu32 " lack a plan", x->job);
    }
    return st;
}

enum hsp_status hsp_adoption_consider(struct hsp_adoption *x, const uint8_t *data, uint32_t len,
                                      struct hsp_err *err)
{
    struct hsp_papers p;
    struct hsp_arena *arena = hsp_arena_new(ARENA);
    uint8_t *copy = malloc((size_t)len + 1);
    enum hsp_status st = arena != NULL && copy != NULL ? HSP_OK : hsp_err_nomem(err, "papers");
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

/* ---- the core has adopted it ---- */

/* The number here of node @old of the lost store; false: the papers do not name it. */
static bool node_now(const struct hsp_app *a, const struct hsp_adoption *x, uint32_t old,
                     uint32_t *ret)
{
    for (uint32_t i = 0; i < x->papers.n; i++) {
        const struct hsp_papers_row *r = &x->papers.row[i];
        const struct hsp_cluster_row row = {r->key, r->value, r->len};
        char name[HSP_NAME_MAX + 1];
        uint32_t at;
        if (hsp_cluster_row_node(&row, &at, name) && at == old) {
            const struct hsp_cluster_node *n = hsp_cluster_node_by_name(a->cluster, name);
            *ret = n != NULL ? hsp_ci_index_of(a->cluster, n) : 0;
            return n != NULL;
        }
    }
    return false;
}

static bool move_devices(const struct hsp_app *a, const struct hsp_adoption *x,
                         struct hsp_plan_rec *p)
{
    bool ok = true;
    for (uint32_t i = 0; i < p->n_ranks && ok; i++) {
        uint32_t to = 0;
        ok = node_now(a, x, HSP_DEVICE_NODE(p->device[i]), &to);
        p->device[i] = HSP_DEVICE(to, HSP_DEVICE_INDEX(p->device[i]));
    }
    return ok;
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
        hsp_buf_reset(&text);
        ok = move_devices(a, x, p);
        hsp_plan_rec_encode(p, &text);
        (void)snprintf(key, sizeof key, "app/plan/%" PRIu32 "/%" PRIu64, x->job, x->plans[i].no);
        ok = ok && !text.failed && row(ctx, key, &text) &&
             hsp_app_plan_add(j, x->plans[i].no, hsp_plan_rec_ref(p));
    }
    hsp_buf_fini(&text);
    return ok;
}
