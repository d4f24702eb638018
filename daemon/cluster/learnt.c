#include "daemon/cluster/learnt.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

#define LASTS_MS     600000u /* longer than a job needs to find a plan that works without it */
#define MAX_DOUBLING 3u
#define WHY_MAX      240

static void remove_at(struct hsp_job *j, uint32_t at)
{
    free(j->facts[at].why);
    j->n_facts--;
    memmove(&j->facts[at], &j->facts[at + 1], (j->n_facts - at) * sizeof(j->facts[0]));
}

static uint32_t oldest(const struct hsp_job *j)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < j->n_facts; i++) {
        best = j->facts[i].since_ms < j->facts[best].since_ms ? i : best;
    }
    return best;
}

static struct hsp_learnt *same_fact(struct hsp_job *j, const struct hsp_plan_fact *f)
{
    for (uint32_t i = 0; i < j->n_facts; i++) {
        const struct hsp_plan_fact *g = &j->facts[i].fact;
        if (g->kind == f->kind && g->device == f->device && g->peer == f->peer) {
            return &j->facts[i];
        }
    }
    return NULL;
}

void hsp_ci_learn(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_fact *f,
                  hsp_msec until_ms, const char *why)
{
    uint32_t k = j->fact_tries < MAX_DOUBLING ? j->fact_tries : MAX_DOUBLING;
    until_ms = until_ms != 0 ? until_ms : c->now_ms + ((hsp_msec)LASTS_MS << k);
    struct hsp_learnt *known = same_fact(j, f);
    char *text = strndup(why != NULL ? why : "", WHY_MAX);
    if (text == NULL) {
        c->failed = true;
        return;
    }
    if (known != NULL) {
        free(known->why);
        known->why = text;
        known->until_ms = known->until_ms > until_ms ? known->until_ms : until_ms;
        known->fact.amount = known->fact.amount > f->amount ? known->fact.amount : f->amount;
        known->fact.again++;
        return;
    }
    if (j->n_facts == HSP_CLUSTER_FACTS) {
        remove_at(j, oldest(j));
    }
    j->facts[j->n_facts++] =
        (struct hsp_learnt){.fact = *f, .since_ms = c->now_ms, .until_ms = until_ms, .why = text};
}

bool hsp_ci_unlearn_node(struct hsp_job *j, uint32_t node, bool data_only)
{
    uint32_t had = j->n_facts;
    for (uint32_t i = j->n_facts; i-- > 0;) {
        const struct hsp_plan_fact *f = &j->facts[i].fact;
        bool data = f->kind == HSP_FACT_NO_DATA || f->kind == HSP_FACT_DATA_DIFFERS;
        bool names = HSP_DEVICE_NODE(f->device) == node || HSP_DEVICE_NODE(f->peer) == node;
        if (names && (data || !data_only)) {
            remove_at(j, i);
        }
    }
    return j->n_facts < had;
}

void hsp_ci_unlearn_all(struct hsp_job *j)
{
    while (j->n_facts > 0) {
        remove_at(j, j->n_facts - 1);
    }
    j->fact_tries = 0;
}

void hsp_ci_learnt_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    const char *ended = NULL;
    for (uint32_t i = j->n_facts; i-- > 0;) {
        const struct hsp_learnt *l = &j->facts[i];
        if (c->now_ms >= l->until_ms) {
            ended =
                hsp_ci_printf(c, "%s may be used as before, it was left out: %s",
                              hsp_ci_device_name(c, l->fact.device), hsp_fact_name(l->fact.kind));
            remove_at(j, i);
        }
    }
    if (ended == NULL) {
        return;
    }
    j->fact_tries++;
    hsp_ci_fact(c, "fact.expired", HSP_SEV_INFO, j, NULL, "%s", ended);
    if (hsp_ci_job_runs(j)) {
        j->retune = true;
        hsp_str_printf(j->cause, sizeof(j->cause), "%s", ended);
    }
}

hsp_msec hsp_ci_learnt_due(const struct hsp_job *j)
{
    hsp_msec best = HSP_NEVER;
    for (uint32_t i = 0; i < j->n_facts; i++) {
        best = j->facts[i].until_ms < best ? j->facts[i].until_ms : best;
    }
    return best;
}
