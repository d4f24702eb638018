#include "daemon/cluster/ckpt_which.h"

#include <string.h>

#include "daemon/cluster/ckpt_cuts.h"

const struct hsp_ckpt_kept *hsp_ci_ckpt_recorded(const struct hsp_job *j, uint32_t i,
                                                 struct hsp_ckpt_kept *newest)
{
    *newest = (struct hsp_ckpt_kept){j->ckpt_step, j->ckpt};
    return i < j->n_older ? &j->older[i] : i == j->n_older && j->has_ckpt ? newest : NULL;
}

/* Whether @k counts by the cuts on record, without those that the disk shows. */
static bool allowed(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    return k->step <= j->steps && hsp_ci_cuts_allow(j, k);
}

static bool of_history(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    return allowed(j, k) && hsp_cuts_allow(j->line.cut, j->line.n, k->mark.epoch, k->step);
}

const struct hsp_ckpt_mark *hsp_ci_ckpt_mark_of(const struct hsp_job *j, uint64_t step)
{
    for (uint32_t i = 0; i < j->n_older; i++) {
        if (j->older[i].step == step) {
            return &j->older[i].mark;
        }
    }
    return j->has_ckpt && j->ckpt_step == step ? &j->ckpt : NULL;
}

bool hsp_ci_ckpt_meant(const struct hsp_ckpt_mark *mark, const struct hsp_ckpt_kept *k)
{
    return mark != NULL && (mark->epoch == 0 || mark->content == k->mark.content);
}

bool hsp_ci_ckpt_is_found(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    return !hsp_ci_ckpt_meant(hsp_ci_ckpt_mark_of(j, k->step), k);
}

static bool was_refused(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    const struct hsp_ckpt_tries *t = &j->tries;
    bool was = false;
    for (uint32_t i = t->n_old; i < t->n && !was; i++) {
        was = t->refused[i].step == k->step && hsp_ci_ckpt_meant(&t->refused[i].mark, k);
    }
    return was;
}

static bool believed(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    bool too_many = j->tries.n - j->tries.n_old == HSP_CKPT_TRIES;
    return !was_refused(j, k) && !(too_many && hsp_ci_ckpt_is_found(j, k));
}

/* ---- the line of the newest epoch ---- */

/* The @i-th on disk or on record; NULL: there are not so many. */
static const struct hsp_ckpt_kept *any_one(const struct hsp_job *j, uint32_t i,
                                           struct hsp_ckpt_kept *newest)
{
    return i < j->n_disk ? &j->disk[i] : hsp_ci_ckpt_recorded(j, i - j->n_disk, newest);
}

/* Finds the first checkpoint of the newest epoch before @after that shows one below the step of
 * @after. False: no epoch does. */
static bool first_of(const struct hsp_job *j, const struct hsp_m_cut *after, struct hsp_m_cut *ret)
{
    struct hsp_m_cut it = {0};
    for (uint32_t i = 0; i < j->n_disk; i++) {
        const struct hsp_ckpt_kept *k = &j->disk[i];
        const uint64_t epoch = k->mark.epoch;
        bool may = epoch >= j->begun && epoch < after->epoch && k->step < after->step;
        bool first = epoch > it.epoch || (epoch == it.epoch && k->step < it.step);
        if (may && first && allowed(j, k) &&
            believed(j, k)) { /* epoch 0, not known, is never first */
            it = (struct hsp_m_cut){0, epoch, k->step};
        }
    }
    *ret = it;
    return it.epoch != 0;
}

/* Whether @cut leaves out any checkpoint that counts otherwise. */
static bool leaves_out(const struct hsp_job *j, const struct hsp_m_cut *cut)
{
    struct hsp_ckpt_kept newest;
    const struct hsp_ckpt_kept *k;
    bool any = false;
    for (uint32_t i = 0; !any && (k = any_one(j, i, &newest)) != NULL; i++) {
        any = !hsp_cuts_allow(cut, 1, k->mark.epoch, k->step) && of_history(j, k);
    }
    return any;
}

bool hsp_ci_ckpt_better(const struct hsp_job *j, const struct hsp_ckpt_kept *a,
                        const struct hsp_ckpt_kept *b)
{
    if (b == NULL || a->step != b->step) {
        return b == NULL || a->step > b->step;
    }
    const struct hsp_ckpt_mark *mark = hsp_ci_ckpt_mark_of(j, a->step);
    if (hsp_ci_ckpt_meant(mark, a) != hsp_ci_ckpt_meant(mark, b)) {
        return hsp_ci_ckpt_meant(mark, a);
    }
    return a->mark.term != b->mark.term     ? a->mark.term > b->mark.term
           : a->mark.epoch != b->mark.epoch ? a->mark.epoch > b->mark.epoch
                                            : a->mark.content > b->mark.content;
}

const struct hsp_ckpt_kept *hsp_ci_ckpt_best(const struct hsp_job *j)
{
    const struct hsp_ckpt_kept *best = NULL;
    for (uint32_t i = 0; i < j->n_disk; i++) {
        const struct hsp_ckpt_kept *k = &j->disk[i];
        bool may = of_history(j, k) && believed(j, k) && (k->step > 0 || !j->anew);
        best = may && hsp_ci_ckpt_better(j, k, best) ? k : best;
    }
    return best;
}

bool hsp_ci_ckpt_left_out(const struct hsp_job *j, uint64_t step, struct hsp_ckpt_kept *ret)
{
    struct hsp_ckpt_kept newest;
    const struct hsp_ckpt_kept *k;
    bool any = false;
    for (uint32_t i = 0; (k = any_one(j, i, &newest)) != NULL; i++) {
        bool out = k->step >= step && allowed(j, k) && !of_history(j, k) && believed(j, k);
        if (out && hsp_ci_ckpt_better(j, k, any ? ret : NULL)) {
            *ret = *k;
            any = true;
        }
    }
    return any;
}

void hsp_ci_ckpt_line(struct hsp_job *j)
{
    struct hsp_m_cut cut[HSP_MSG_CUTS]; /* the newest is the first */
    struct hsp_m_cut at = {0, UINT64_MAX, UINT64_MAX};
    uint32_t n = 0;
    for (; n < HSP_MSG_CUTS && first_of(j, &at, &cut[n]); n++) {
        at = cut[n];
    }
    for (j->line.n = 0; n > 0; n--) {
        if (leaves_out(j, &cut[n - 1])) {
            j->line.cut[j->line.n++] = cut[n - 1];
        }
    }
    const struct hsp_ckpt_kept *best = hsp_ci_ckpt_best(j);
    struct hsp_ckpt_kept other;
    if (best != NULL && !hsp_ci_ckpt_left_out(j, best->step, &other)) {
        j->line.n = 0; /* older ones alone: the choice is the same */
    }
}

bool hsp_ci_ckpt_is_on_disk(const struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    bool is = false;
    for (uint32_t i = 0; i < j->n_disk && !is; i++) {
        is = j->disk[i].step == k->step && hsp_ci_ckpt_meant(&k->mark, &j->disk[i]);
    }
    return is;
}

bool hsp_ci_ckpt_missing(const struct hsp_job *j, uint64_t below, struct hsp_ckpt_kept *ret)
{
    struct hsp_ckpt_kept newest;
    const struct hsp_ckpt_kept *k;
    bool any = false;
    for (uint32_t i = 0; (k = hsp_ci_ckpt_recorded(j, i, &newest)) != NULL; i++) {
        if (of_history(j, k) && k->step < below && !was_refused(j, k) &&
            !hsp_ci_ckpt_is_on_disk(j, k)) {
            *ret = *k;
            any = true;
        }
    }
    return any;
}

bool hsp_ci_ckpt_newest(const struct hsp_job *j, uint64_t *ret)
{
    const struct hsp_ckpt_kept *best = hsp_ci_ckpt_best(j), *k;
    struct hsp_ckpt_kept newest;
    bool any = best != NULL;
    *ret = any ? best->step : 0;
    for (uint32_t i = 0; (k = hsp_ci_ckpt_recorded(j, i, &newest)) != NULL; i++) {
        if (of_history(j, k)) {
            *ret = k->step > *ret ? k->step : *ret;
            any = true;
        }
    }
    return any;
}

bool hsp_ci_ckpt_next(const struct hsp_job *j, struct hsp_ckpt_kept *ret)
{
    const struct hsp_ckpt_kept *best = hsp_ci_ckpt_best(j), *k;
    struct hsp_ckpt_kept newest;
    bool any = best != NULL;
    *ret = any ? *best : (struct hsp_ckpt_kept){0};
    for (uint32_t i = 0; (k = hsp_ci_ckpt_recorded(j, i, &newest)) != NULL; i++) {
        bool may = of_history(j, k) && k->step < j->origin_step && !was_refused(j, k);
        if (may && (!any || k->step > ret->step)) {
            *ret = *k;
            any = true;
        }
    }
    return any;
}

void hsp_ci_ckpt_note_refused(struct hsp_job *j, const struct hsp_ckpt_kept *k)
{
    struct hsp_ckpt_tries *t = &j->tries;
    t->found = t->found || hsp_ci_ckpt_is_found(j, k);
    if (t->n == HSP_CKPT_TRIES) {
        memmove(t->refused, t->refused + 1, (HSP_CKPT_TRIES - 1) * sizeof(t->refused[0]));
        t->n--;
        t->n_old -= t->n_old > 0;
    }
    t->refused[t->n++] = *k;
    hsp_ci_ckpt_line(j);
}

void hsp_ci_ckpt_forgive(struct hsp_job *j)
{
    j->tries.n_old = j->tries.n;
    hsp_ci_ckpt_line(j);
}
