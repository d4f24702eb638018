/* Lists and prunes the steps of a job. The happy path: after each commit the oldest step of the job
 * goes, so that `keep` are left.
 *
 * Possible failure modes:
 *   a foreign file in a step: all other files of the step are deleted, and the other old steps;
 *   a killed deletion: the manifest went first, and a step without a manifest is not complete;
 *   a step of a history that was given up: it does not count among the `keep`, so no good
 *   step goes for it; steps and attempts of other jobs and clusters: they stay. */
#include "worker/state/ckpt_steps.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "worker/state/ckpt_owner.h"

#define MAX_STEPS 1048576

/* ---- names ---- */

enum kind { COMPLETE, ATTEMPT, OLD_ATTEMPT }; /* of a version that names no epoch in it */
struct found {
    struct hsp_ckpt_place at;
    enum kind kind;
    uint64_t term, epoch; /* of ATTEMPT: of its writers; else 0 */
};

/* Reads a decimal number, and moves *text behind it. */
static bool take_number(const char **text, uint64_t *ret)
{
    char digits[24];
    size_t n = strspn(*text, "0123456789");
    if (n == 0 || n >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, *text, n);
    digits[n] = '\0';
    *text += n;
    const char *p = digits + strspn(digits, "0");
    return hsp_parse_u64(*p != '\0' ? p : "0", ret);
}

static bool take_word(const char **text, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(*text, word, n) == 0;
    *text += is ? n : 0;
    return is;
}

static void name_of(const struct found *f, const struct hsp_ckpt_info *us, char ret[HSP_CKPT_NAME])
{
    if (f->kind == COMPLETE) {
        hsp_ckpt_place_name(&f->at, ret);
        return;
    }
    struct hsp_ckpt_info attempt = *us;
    attempt.step = f->at.step;
    attempt.term = f->term;
    attempt.epoch = f->epoch;
    attempt.old_name = false;
    f->kind == ATTEMPT ? hsp_ckpt_tmp_name(&attempt, ret) : hsp_ckpt_old_tmp_name(&attempt, ret);
}

/* Reads the numbers in a name, and ignores all text behind them. */
static bool parse_numbers(const char *p, struct found *ret)
{
    uint64_t job = 0;
    *ret = (struct found){.kind = COMPLETE};
    if (!take_word(&p, "step-") || !take_number(&p, &ret->at.step)) {
        return false;
    }
    if (*p == '\0') {
        return true;
    }
    if (!take_word(&p, ".job-") || !take_number(&p, &job) || job > UINT32_MAX) {
        return false;
    }
    if (*p == '\0') {
        ret->at.aside = (uint32_t)job;
        return job > 0;
    }
    ret->kind = take_word(&p, ".term-") ? ATTEMPT : OLD_ATTEMPT;
    return ret->kind == OLD_ATTEMPT || (take_number(&p, &ret->term) && take_word(&p, ".epoch-") &&
                                        take_number(&p, &ret->epoch));
}

/* Reads a name as a complete step, or as an attempt of the job of @us; NULL: of no job. False:
 * neither. A name in another form, such as step-100 for step-0000000100, is another's. Deletion
 * builds the name from the numbers, and would take the wrong folder. */
static bool parse_name(const char *file, const struct hsp_ckpt_info *us, struct found *ret)
{
    char own[HSP_CKPT_NAME];
    if (!parse_numbers(file, ret) || (ret->kind != COMPLETE && us == NULL)) {
        return false;
    }
    name_of(ret, us, own);
    return strcmp(file, own) == 0;
}

/* ---- listing ---- */

/* Sorts; of one step first the complete one with its name, then those moved aside, then
 * attempts. */
static int newest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->at.step != y->at.step) {
        return x->at.step > y->at.step ? -1 : 1;
    }
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    if (x->at.aside != y->at.aside) {
        return x->at.aside < y->at.aside ? -1 : 1;
    }
    return x->epoch != y->epoch ? (x->epoch > y->epoch ? -1 : 1)
                                : (x->term < y->term) - (x->term > y->term);
}

struct list {
    const struct hsp_folder *job;
    const struct hsp_ckpt_info *us;
    struct found *item;
    size_t n, cap;
    enum hsp_status st;
    struct hsp_err *err;
};

static bool take_name(void *ctx, const char *file)
{
    struct list *l = ctx;
    struct found f;
    if (!parse_name(file, l->us, &f)) {
        return true;
    }
    if (!hsp_grow(&l->item, &l->cap, l->n + 1, sizeof(*l->item), MAX_STEPS)) {
        l->st = hsp_grow_error(l->n + 1, MAX_STEPS, "checkpoints", l->err);
        (void)hsp_err_wrap(l->err, "%s", l->job->path);
        return false;
    }
    l->item[l->n++] = f;
    return true;
}

static enum hsp_status list_folder(const struct hsp_folder *job, const struct hsp_ckpt_info *us,
                                   struct found **ret, size_t *ret_n, struct hsp_err *err)
{
    struct list l = {.job = job, .us = us, .err = err};
    enum hsp_status st = hsp_folder_each(job, take_name, &l, err);
    st = st == HSP_OK ? l.st : st;
    if (st != HSP_OK) {
        free(l.item);
        return st;
    }
    if (l.n > 0) {
        qsort(l.item, l.n, sizeof(*l.item), newest_first);
    }
    *ret = l.item;
    *ret_n = l.n;
    return HSP_OK;
}

/* Opens @dir and lists it. HSP_ENOENT: there is no such folder. */
static enum hsp_status open_and_list(const char *dir, const struct hsp_ckpt_info *us,
                                     struct hsp_folder *ret_job, struct found **ret, size_t *ret_n,
                                     struct hsp_err *err)
{
    enum hsp_status st = hsp_folder_open(dir, false, ret_job, err);
    if (st != HSP_OK) {
        return st;
    }
    st = list_folder(ret_job, us, ret, ret_n, err);
    if (st != HSP_OK) {
        hsp_folder_close(ret_job);
    }
    return st;
}

enum hsp_status hsp_ckpt_list(const char *dir, struct hsp_ckpt_place **ret, size_t *ret_n,
                              struct hsp_err *err)
{
    struct hsp_folder job = {.fd = -1};
    struct found *all = NULL;
    size_t n = 0;
    enum hsp_status st = open_and_list(dir, NULL, &job, &all, &n, err);
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st;
    }
    hsp_folder_close(&job);
    struct hsp_ckpt_place *places = calloc(n + 1, sizeof(*places));
    if (places == NULL) {
        free(all);
        return hsp_err_nomem(err, "%zu steps", n);
    }
    for (size_t i = 0; i < n; i++) {
        places[i] = all[i].at;
    }
    free(all);
    *ret = places;
    *ret_n = n;
    return HSP_OK;
}

/* ---- deleting ---- */

/* A pass over the steps of a job, newest first. */
struct pass {
    const struct hsp_folder *job;
    const struct hsp_ckpt_info *us;
    size_t keep, kept;
    const struct hsp_m_cut *cut;
    uint32_t n_cuts;
    uint64_t last;       /* step that was kept last */
    uint64_t last_epoch; /* of it */
    enum hsp_status st;  /* the first error */
    struct hsp_err *err;
};

static void note(struct pass *p, enum hsp_status st, const struct hsp_err *why)
{
    if (st != HSP_OK && p->st == HSP_OK) {
        p->st = hsp_err_set(p->err, st, 0, "%s", why->msg);
    }
}

static void remove_found(struct pass *p, const struct found *f)
{
    char name[HSP_CKPT_NAME];
    struct hsp_err why = {0};
    name_of(f, p->us, name);
    note(p, hsp_folder_remove(p->job, name, HSP_CKPT_MANIFEST, &why), &why);
}

/* Returns true if the job of the pass may and should delete the complete step @f, of @o. */
static bool is_old(struct pass *p, const struct found *f, const struct hsp_ckpt_owner *o)
{
    if (o->later || (o->kind != HSP_CKPT_OURS && o->kind != HSP_CKPT_NOBODY)) {
        return false;
    }
    if (p->kept > 0 && p->last == f->at.step) { /* moved aside: to be written anew, or by mistake */
        return o->kind == HSP_CKPT_NOBODY || o->epoch < p->last_epoch;
    }
    if (p->kept >= p->keep) {
        return true;
    }
    if (o->kind == HSP_CKPT_OURS && !o->damaged &&
        hsp_cuts_allow(p->cut, p->n_cuts, o->epoch, f->at.step)) {
        p->kept++;
        p->last = f->at.step;
        p->last_epoch = o->epoch;
    }
    return false;
}

/* Deletes the complete step @f, if it is old. */
static void prune_step(struct pass *p, const struct found *f)
{
    char name[HSP_CKPT_NAME];
    struct hsp_ckpt_owner o;
    struct hsp_folder step;
    struct hsp_err why = {0};
    name_of(f, p->us, name);
    enum hsp_status st = hsp_ckpt_owner_open(p->job, name, p->us, &o, &step, &why);
    if (st == HSP_OK && is_old(p, f, &o) && step.fd >= 0) {
        st = hsp_folder_remove_open(p->job, &step, name, HSP_CKPT_MANIFEST, &why);
    }
    note(p, st, &why);
    hsp_folder_close(&step);
}

enum hsp_status hsp_ckpt_prune(const char *dir, const struct hsp_ckpt_info *us, size_t keep,
                               const struct hsp_m_cut *cut, uint32_t n_cuts, struct hsp_err *err)
{
    struct hsp_folder job = {.fd = -1};
    struct found *all = NULL;
    size_t n = 0;
    enum hsp_status st = open_and_list(dir, us, &job, &all, &n, err);
    if (st != HSP_OK) {
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    struct pass p = {.job = &job,
                     .us = us,
                     .keep = keep > 0 ? keep : 1,
                     .cut = cut,
                     .n_cuts = n_cuts,
                     .err = err};
    for (size_t i = 0; i < n; i++) {
        const struct found *f = &all[i];
        if (f->at.step > us->step) {
            continue;
        }
        if (f->kind == COMPLETE) {
            prune_step(&p, f);
        } else if (p.kept > 0 && f->epoch <= us->epoch) {
            remove_found(&p, f);
        }
    }
    free(all);
    hsp_folder_close(&job);
    return p.st;
}

enum hsp_status hsp_ckpt_sweep(const char *dir, const struct hsp_ckpt_info *us, struct hsp_err *err)
{
    struct hsp_folder job = {.fd = -1};
    struct found *all = NULL;
    size_t n = 0;
    enum hsp_status st = open_and_list(dir, us, &job, &all, &n, err);
    if (st != HSP_OK) {
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    struct pass p = {.job = &job, .us = us, .err = err};
    for (size_t i = 0; i < n; i++) {
        const struct found *f = &all[i];
        bool before = f->at.step < us->step
                          ? f->epoch <= us->epoch
                          : f->at.step == us->step && f->kind == ATTEMPT && f->epoch < us->epoch;
        if (f->kind != COMPLETE && before) {
            remove_found(&p, f);
        }
    }
    free(all);
    hsp_folder_close(&job);
    return p.st;
}

enum hsp_status hsp_ckpt_abandon(const char *dir, const struct hsp_ckpt_info *us,
                                 struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job;
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st != HSP_OK) {
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    hsp_ckpt_tmp_name(us, name);
    st = hsp_folder_remove(&job, name, HSP_CKPT_MANIFEST, err);
    hsp_folder_close(&job);
    return st;
}
