#include "daemon/cluster/cluster_papers.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/rows.h"
#include "proto/wire/papers.h"

struct list {
    struct hsp_papers_row *row;
    uint32_t n;
};

static void add(struct list *l, struct hsp_cluster_row r)
{
    l->row[l->n++] = (struct hsp_papers_row){r.key, r.value, r.len};
}

/* The nodes that the layouts of @j name, each once. */
static void add_nodes(struct hsp_cluster *c, const struct hsp_job *j, struct list *l)
{
    bool *has = hsp_ci_alloc(c, c->n_nodes, sizeof(*has));
    for (uint32_t i = 0; has != NULL && i < j->n_plans; i++) {
        const struct hsp_plan_info *p = &j->plans[i].info;
        for (uint32_t k = 0; k < p->n_ranks + p->n_replica_holders; k++) {
            uint32_t at = HSP_DEVICE_NODE(hsp_ci_holder(p, k));
            if (!has[at]) {
                has[at] = true;
                add(l, hsp_ci_name_row(c, at));
            }
        }
    }
}

static const struct hsp_papers *make(struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_papers *p = hsp_ci_alloc(c, 1, sizeof(*p));
    struct list l = {.row = hsp_ci_alloc(c, (size_t)c->n_nodes + j->n_plans + 1, sizeof(*l.row))};
    if (p == NULL || l.row == NULL) {
        return NULL;
    }
    add_nodes(c, j, &l);
    add(&l, hsp_ci_terms_row(c, j));
    for (uint32_t i = 0; i < j->n_plans; i++) {
        add(&l, hsp_ci_plan_row(c, j, &j->plans[i]));
    }
    *p = (struct hsp_papers){.job = j->id,
                             .name = hsp_ci_printf(c, "%s", j->name),
                             .whose = {c->id, c->generation},
                             .epoch = j->next_epoch - 1,
                             .n = l.n,
                             .row = l.row};
    return c->failed ? NULL : p;
}

void hsp_ci_papers_send(struct hsp_cluster *c, const struct hsp_job *j, uint32_t at,
                        struct hsp_papers_round *r)
{
    struct hsp_msg m = {.type = HSP_MSG_PAPERS,
                        .epoch = j->next_epoch - 1,
                        .u.papers = {.job = j->id,
                                     .what = HSP_PAPERS_KEEP,
                                     .cluster = c->id,
                                     .from = r->from,
                                     .generation = c->generation,
                                     .reason = ""}};
    r->papers = r->papers != NULL ? r->papers : make(c, j);
    r->told = r->told != NULL ? r->told : hsp_ci_alloc(c, c->n_nodes, sizeof(*r->told));
    if (r->papers == NULL || r->told == NULL || r->told[at] || c->nodes[at].conn == 0) {
        return;
    }
    r->told[at] = true;
    hsp_ci_send(c, c->nodes[at].conn, &m);
    if (!c->failed) {
        struct hsp_action *a = &c->actions[c->n_actions - 1];
        a->type = HSP_ACT_PAPERS;
        a->job = j->id;
        a->u.papers = r->papers;
    }
}
