#include "daemon/plan/pool_view.h"

#include "daemon/plan/stage_groups.h"

/* Extents of tensors are symbols of batch and sequence, and the tensors that a model holds for each
 * position of the job's longest sequence are constant: another length is the same graph under
 * another number. */
void hsp_pool_view_make(const struct hsp_graph *g, const struct hsp_train_spec *t,
                        const struct hsp_plan *p, const struct hsp_plan *total,
                        struct hsp_pool_view *ret)
{
    *ret = (struct hsp_pool_view){.g = *g, .t = *t, .p = *p};
    if (p->max_length != 0) {
        bool whole = g->spec.positions == 0 && (int64_t)p->max_length == g->spec.sequence;
        ret->g.spec.positions = whole                   ? 0
                                : g->spec.positions > 0 ? g->spec.positions
                                                        : g->spec.sequence;
        ret->g.spec.sequence = p->max_length;
        ret->t.data.sequence = p->max_length;
    }
    ret->p.n_shorter = 0;
    ret->p.shorter = NULL;
    if (total != NULL && p->n_homes == 0 && p->n_rules == 0) {
        ret->p.n_homes = total->n_homes;
        ret->p.homes = total->homes;
    }
}

enum hsp_status hsp_pool_allowed(const struct hsp_plan *p, const struct hsp_train_spec *t,
                                 struct hsp_err *err)
{
    bool documents = t->data.samples == HSP_SAMPLES_DOCUMENTS;
    if (p->n_shorter > 0 && !documents) {
        return hsp_err_set(err, HSP_EINVAL, 0, "a pool needs data.samples: documents");
    }
    for (uint32_t k = 0; documents && k <= p->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p, k);
        for (uint32_t i = 0; i < one->n_pipelines; i++) {
            if (hsp_pipeline_cuts_batch(&one->pipelines[i])) {
                return hsp_err_set(
                    err, HSP_EINVAL, 0,
                    "pipeline %u: split: batch needs micro-batches of one size, with "
                    "data.samples: documents steps have as many sequences as they "
                    "fill",
                    i);
            }
        }
    }
    return HSP_OK;
}
