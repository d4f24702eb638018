#include "daemon/cluster/ckpt_cuts.h"

/* The first has `from` 0 or HSP_CUT_MORE: a cut with another `from` stands behind one of its
 * step. */
static void merge_oldest(struct hsp_m_cut *cut, uint32_t n)
{
    struct hsp_m_cut *a = &cut[0], *b = &cut[1]; /* a->step <= b->step */
    a->from = HSP_CUT_MORE;
    a->epoch = a->epoch > b->epoch ? a->epoch : b->epoch;
    for (uint32_t i = 2; i < n; i++) {
        cut[i - 1] = cut[i];
    }
}

/* Makes the cuts where they would, merged, leave out the checkpoint that the job goes on from:
 * three cuts that leave out all that @cut does, but for that checkpoint. Returns their number. @cut
 * has HSP_MSG_CUTS cuts, whose steps ascend. */
static uint32_t all_but(struct hsp_m_cut *cut, uint64_t epoch, uint64_t step, uint64_t written_in)
{
    const uint64_t lowest = cut[0].step;
    cut[0] = (struct hsp_m_cut){HSP_CUT_MORE, written_in, lowest};
    cut[1] = (struct hsp_m_cut){written_in + 1, epoch, lowest};
    cut[2] = (struct hsp_m_cut){0, epoch, step};
    return 3;
}

void hsp_ci_cuts_add(struct hsp_ckpt_cuts *h, uint64_t epoch, uint64_t step, uint64_t written_in)
{
    struct hsp_m_cut cut[HSP_MSG_CUTS + 3];
    uint32_t n = 0;
    while (n < h->n && h->cut[n].step < step && hsp_cuts_allow(&h->cut[n], 1, written_in, step)) {
        cut[n] = h->cut[n];
        n++;
    }
    if (n < h->n && h->cut[n].step < step) { /* the checkpoint was given up, and is not any more */
        const uint64_t at = h->cut[n].step;  /* @written_in may have begun behind that */
        cut[n++] = (struct hsp_m_cut){HSP_CUT_MORE, written_in, at};
        cut[n++] = (struct hsp_m_cut){written_in + 1, epoch, at};
    }
    cut[n++] = (struct hsp_m_cut){0, epoch, step};
    for (; n > HSP_MSG_CUTS; n--) {
        merge_oldest(cut, n);
    }
    if (!hsp_cuts_allow(cut, n, written_in, step)) {
        n = all_but(cut, epoch, step, written_in);
    }
    for (h->n = 0; h->n < n; h->n++) {
        h->cut[h->n] = cut[h->n];
    }
}

/* Adds the cuts that the disk shows (ckpt_which.h). Since then the job has gone on from @line, by
 * its newest epoch. */
static void add_line(struct hsp_ckpt_cuts *h, const struct hsp_ckpt_cuts *line)
{
    for (uint32_t i = 0; i < line->n; i++) {
        const struct hsp_m_cut *k = &line->cut[i];
        hsp_ci_cuts_add(h, k->epoch, k->step, k->epoch);
    }
}

void hsp_ci_cuts_of(const struct hsp_job *j, const struct hsp_cl_epoch *e,
                    struct hsp_ckpt_cuts *ret)
{
    *ret = j->cuts;
    if (e->epoch != 0 && (e->mode == HSP_MODE_FRESH || e->mode == HSP_MODE_RESTORE)) {
        bool fresh = e->mode == HSP_MODE_FRESH;
        add_line(ret, &j->line);
        hsp_ci_cuts_add(ret, e->epoch, fresh ? 0 : j->origin_step,
                        fresh ? 0 : j->origin_ckpt.epoch);
    }
}

bool hsp_ci_cuts_allow(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    return hsp_cuts_allow(j->cuts.cut, j->cuts.n, k->mark.epoch, k->step);
}

bool hsp_ci_metrics_count(const struct hsp_job *j, uint64_t epoch, uint64_t step)
{
    return hsp_cuts_allow_metrics(j->cuts.cut, j->cuts.n, epoch, step);
}
