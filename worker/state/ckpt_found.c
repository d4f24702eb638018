/* Finds the complete checkpoints of a job. The happy path: each step in the folder is looked at,
 * newest first, until there are enough.
 *
 * Possible failure modes: a step that is damaged, or vanishes meanwhile (passed over); one that
 * cannot be read now, or a folder that cannot be listed (told beside the list, since the step may
 * be whole); want of memory (no list at all: a shorter one would be believed). */
#include "worker/state/ckpt_found.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/state/ckpt_owner.h"
#include "worker/state/ckpt_sign.h"
#include "worker/state/ckpt_steps.h"

struct search {
    const char *dir;
    const struct hsp_ckpts_asked *q;
    struct hsp_ckpts_found l;
};

/* ---- one step ---- */

static void add(struct search *s, const struct hsp_ckpt *c)
{
    const struct hsp_ckpt_info *i = hsp_ckpt_about(c), *us = &s->q->us;
    const struct hsp_ckpt_found one = {i->step, i->term, i->epoch, hsp_ckpt_content(c)};
    struct hsp_ckpts_found *l = &s->l;
    bool ours = hsp_ckpt_is_of(i, us) && strcmp(i->job, us->job) == 0;
    for (size_t k = l->n; ours && k > 0 && l->item[k - 1].step == one.step; k--) {
        ours = l->item[k - 1].content != one.content;
    }
    if (ours) {
        l->item[l->n++] = one;
    }
}

/* Notes at @keep the reason @why for which the step at @at cannot be used. A reason of a newer step
 * stays, and another job's step gives none. */
static enum hsp_status keep_why(struct search *s, const struct hsp_ckpt_place *at,
                                const struct hsp_err *why, struct hsp_err *keep,
                                struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job;
    struct hsp_ckpt_owner o = {.kind = HSP_CKPT_UNKNOWN};
    if (s->l.n > 0 || keep->code != HSP_OK) {
        return HSP_OK; /* one that is newer and whole, or told */
    }
    hsp_ckpt_place_name(at, name);
    enum hsp_status st = hsp_folder_open(s->dir, false, &job, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_owner_of(&job, name, &s->q->us, &o, err);
    }
    hsp_folder_close(&job);
    if (st == HSP_ENOMEM || (o.kind != HSP_CKPT_OURS && o.kind != HSP_CKPT_UNKNOWN)) {
        return st == HSP_ENOMEM ? st : HSP_OK;
    }
    *keep = *why;
    if (keep == &s->l.unread) {
        (void)hsp_err_wrap(keep, "step %" PRIu64 " cannot be read%s", at->step,
                           o.kind == HSP_CKPT_UNKNOWN ? ", nor whose it is" : "");
    }
    return HSP_OK;
}

/* HSP_ENOMEM: nothing is known of the step. */
static enum hsp_status look_at(struct search *s, const struct hsp_ckpt_place *at,
                               struct hsp_err *err)
{
    struct hsp_ckpt *c = NULL;
    struct hsp_err why = {0};
    if (at->aside != 0 && at->aside != s->q->us.job_id) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_ckpt_look_at(s->dir, at, &c, &why);
    switch (st) {
    case HSP_OK:
        add(s, c);
        (void)hsp_ckpt_close(c);
        return HSP_OK;
    case HSP_ENOENT: return HSP_OK;
    case HSP_ENOMEM: return hsp_err_set(err, st, 0, "%s", why.msg);
    case HSP_EDIGEST: return keep_why(s, at, &why, &s->l.damage, err);
    default: return keep_why(s, at, &why, &s->l.unread, err);
    }
}

/* ---- all of them ---- */

static int newest_first(const void *a, const void *b)
{
    const struct hsp_ckpt_place *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step ? -1 : 1)
                              : (x->aside > y->aside) - (x->aside < y->aside);
}

/* The places that the folder lists and those on record, newest first, some twice; free(). A folder
 * that cannot be listed lists none. */
static enum hsp_status places_of(struct search *s, struct hsp_ckpt_place **ret, size_t *ret_n,
                                 struct hsp_err *err)
{
    struct hsp_ckpt_place *p = NULL;
    struct hsp_err why = {0};
    size_t n = 0;
    enum hsp_status st = hsp_ckpt_list(s->dir, &p, &n, &why);
    if (st == HSP_ENOMEM) {
        return hsp_err_set(err, st, 0, "%s", why.msg);
    }
    if (st != HSP_OK) {
        s->l.unread = why;
    }
    struct hsp_ckpt_place *more = realloc(p, (n + 2 * s->q->n + 1) * sizeof *p);
    if (more == NULL) {
        free(p);
        return hsp_err_nomem(err, "%zu checkpoints", n);
    }
    for (size_t i = 0; i < s->q->n; i++) {
        more[n++] = (struct hsp_ckpt_place){.step = s->q->step[i]};
        more[n++] = (struct hsp_ckpt_place){s->q->step[i], s->q->us.job_id};
    }
    qsort(more, n, sizeof *more, newest_first);
    *ret = more;
    *ret_n = n;
    return HSP_OK;
}

enum hsp_status hsp_ckpt_find_all(const char *dir, const struct hsp_ckpts_asked *q,
                                  struct hsp_ckpts_found *ret, struct hsp_err *err)
{
    struct search s = {.dir = dir, .q = q};
    struct hsp_ckpt_place *at = NULL;
    size_t n = 0;
    enum hsp_status st = places_of(&s, &at, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    s.l.item = calloc((n < q->max ? n : q->max) + 1, sizeof *s.l.item);
    st = s.l.item != NULL ? HSP_OK : hsp_err_nomem(err, "%zu checkpoints", n);
    for (size_t i = 0; i < n && st == HSP_OK && s.l.n < q->max; i++) {
        if (i == 0 || newest_first(&at[i - 1], &at[i]) != 0) {
            st = look_at(&s, &at[i], err);
        }
    }
    free(at);
    bool any = s.l.n > 0 || s.l.damage.code != HSP_OK || s.l.unread.code != HSP_OK, is = any;
    if (st == HSP_OK && !any) {
        st = hsp_ckpt_is_signed(dir, &q->us, &is, err);
    }
    if (st != HSP_OK) {
        free(s.l.item);
        return st;
    }
    s.l.absent = !is;
    *ret = s.l;
    return HSP_OK;
}
