/* The happy path: each step in the folder is opened, newest first, until there are enough.
 *
 * Possible failure modes: a step that is damaged, or vanishes meanwhile (passed over); want of
 * memory (no list at all: a shorter one would be believed). */
#include "worker/state/ckpt_found.h"

#include <stdlib.h>
#include <string.h>

#include "proto/host/open_files_limit.h"
#include "worker/state/ckpt_owner.h"
#include "worker/state/ckpt_steps.h"

#define FILES (HSP_CKPT_MAX_RANKS + 64) /* the shards of a step are open together */

static void add(struct hsp_ckpts_found *l, const struct hsp_ckpt_info *us, const struct hsp_ckpt *c)
{
    const struct hsp_ckpt_info *i = hsp_ckpt_about(c);
    const struct hsp_ckpt_found one = {i->step, i->term, i->epoch, hsp_ckpt_content(c)};
    bool ours = hsp_ckpt_is_of(i, us) && strcmp(i->job, us->job) == 0;
    for (size_t k = l->n; ours && k > 0 && l->item[k - 1].step == one.step; k--) {
        ours = l->item[k - 1].content != one.content;
    }
    if (ours) {
        l->item[l->n++] = one;
    }
}

/* HSP_ENOMEM: nothing is known of the step. */
static enum hsp_status look_at(const char *dir, const struct hsp_ckpt_info *us,
                               const struct hsp_ckpt_place *at, struct hsp_ckpts_found *l,
                               struct hsp_err *err)
{
    struct hsp_ckpt *c = NULL;
    struct hsp_err why = {0};
    if (at->aside != 0 && at->aside != us->job_id) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_ckpt_open_at(dir, at, &c, &why);
    if (st == HSP_OK) {
        add(l, us, c);
    } else if (st == HSP_EDIGEST && l->n == 0 && l->damage.code == HSP_OK) {
        l->damage = why;
    }
    (void)hsp_ckpt_close(c);
    return st == HSP_ENOMEM ? hsp_err_set(err, st, 0, "%s", why.msg) : HSP_OK;
}

enum hsp_status hsp_ckpt_find_all(const char *dir, const struct hsp_ckpt_info *us, size_t max,
                                  struct hsp_ckpts_found *ret, struct hsp_err *err)
{
    struct hsp_ckpt_place *step = NULL;
    struct hsp_ckpts_found l = {0};
    size_t n = 0;
    (void)hsp_nofile_raise(FILES); /* with fewer, a step that needs them says so */
    enum hsp_status st = hsp_ckpt_list(dir, &step, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    l.item = calloc((n < max ? n : max) + 1, sizeof(*l.item));
    st = l.item != NULL ? HSP_OK : hsp_err_nomem(err, "%zu checkpoints", n);
    for (size_t i = 0; i < n && st == HSP_OK && l.n < max; i++) {
        st = look_at(dir, us, &step[i], &l, err);
    }
    free(step);
    if (st != HSP_OK) {
        free(l.item);
        return st;
    }
    *ret = l;
    return HSP_OK;
}
