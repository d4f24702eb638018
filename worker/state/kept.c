/* Lists the jobs on a node. The happy path: one scan of the folder, then one look at the papers of
 * each job.
 *
 * Possible failure modes: more jobs than fit into the list (told); damaged papers (told, and the
 * segments alone are believed); want of memory (an error: an empty list would be believed). */
#include "worker/state/kept.h"

#include <stdlib.h>

#include "proto/base/str.h"
#include "proto/wire/identity.h"
#include "proto/wire/papers.h"
#include "worker/state/papers_file.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

/* The list, in one block, so that one free() releases it. */
struct list {
    struct hsp_m_kept kept[HSP_MSG_KEPT];
    char name[HSP_MSG_KEPT][HSP_NAME_MAX + 1];
    bool more; /* the folder has segments of further jobs */
};

static struct hsp_m_kept *of_job(struct list *l, uint32_t *n, uint32_t job)
{
    uint32_t i = 0;
    while (i < *n && l->kept[i].job != job) {
        i++;
    }
    if (i == HSP_MSG_KEPT) {
        return NULL;
    }
    if (i == *n) {
        l->kept[(*n)++] = (struct hsp_m_kept){.job = job, .name = l->name[i]};
    }
    return &l->kept[i];
}

/* Notes a segment. The newest layout names the owner; a segment without a cluster names none. */
static void note(struct hsp_m_kept *k, const struct hsp_segment_info *i, uint64_t plan)
{
    bool says = i->status == HSP_OK && !hsp_cluster_none(i->whose.cluster);
    if (says && (plan >= k->plan || hsp_cluster_none(k->cluster))) {
        k->cluster = i->whose.cluster;
        k->generation = i->whose.generation;
    }
    k->plan = plan > k->plan ? plan : k->plan;
}

/* Notes papers, which are renewed when a job is adopted; segments are not. Of one cluster the newer
 * generation is listed. */
static void note_papers(struct hsp_m_kept *k, const struct hsp_papers_head *p, char *name)
{
    bool same = hsp_digest_equal(k->cluster, p->whose.cluster);
    if (!same || hsp_generation_ahead(p->whose.generation, k->generation)) {
        k->cluster = p->whose.cluster;
        k->generation = p->whose.generation;
    }
    k->epoch = p->epoch;
    hsp_str_printf(name, HSP_NAME_MAX + 1, "%s", p->name);
}

/* Reads the papers of a job; missing or damaged papers tell nothing. */
static enum hsp_status look_at_papers(const char *dir, struct hsp_m_kept *k, char *name,
                                      struct hsp_err *err)
{
    struct hsp_papers_head p;
    struct hsp_err why = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_papers_file_read(dir, k->job, &data, &len, &why);
    st = st == HSP_OK ? hsp_papers_look(data, len, &p, &why) : st;
    if (st == HSP_OK) {
        note_papers(k, &p, name);
    }
    k->papers_damaged = st == HSP_EDIGEST || st == HSP_EIO || st == HSP_ELIMIT;
    free(data);
    return st == HSP_ENOMEM ? hsp_err_set(err, st, 0, "%s", why.msg) : HSP_OK;
}

static enum hsp_status scan(const char *dir, struct list **ret, uint32_t *ret_n,
                            struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    enum hsp_status st = hsp_segment_scan(dir, &info, &n, err);
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st;
    }
    struct list *l = calloc(1, sizeof *l);
    *ret_n = 0;
    for (size_t i = 0; l != NULL && i < n; i++) {
        struct hsp_segname name;
        if (hsp_segname_of(&info[i], &name)) {
            struct hsp_m_kept *k = of_job(l, ret_n, name.job);
            if (k != NULL) {
                note(k, &info[i], name.plan);
            }
            l->more = l->more || k == NULL;
        }
    }
    free(info);
    *ret = l;
    return l != NULL ? HSP_OK : hsp_err_nomem(err, "%u jobs", HSP_MSG_KEPT);
}

enum hsp_status hsp_kept_scan(const char *dir, struct hsp_m_kept **ret, uint32_t *ret_n,
                              bool *ret_more, struct hsp_err *err)
{
    struct list *l = NULL;
    uint32_t n = 0;
    enum hsp_status st = scan(dir, &l, &n, err);
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        st = look_at_papers(dir, &l->kept[i], l->name[i], err);
    }
    if (st != HSP_OK) {
        free(l);
        return st;
    }
    *ret_more = l->more;
    *ret = l->kept;
    *ret_n = n;
    return HSP_OK;
}

/* ---- tidying ---- */

struct tidying {
    const char *dir;
    const struct list *kept;
    uint32_t n;
    enum hsp_status st;
    struct hsp_err *err;
};

static void tidy_one(void *ctx, uint32_t job)
{
    struct tidying *t = ctx;
    bool has = false;
    for (uint32_t i = 0; i < t->n && !has; i++) {
        has = t->kept->kept[i].job == job;
    }
    if (!has && !t->kept->more && t->st == HSP_OK) {
        t->st = hsp_papers_file_remove(t->dir, job, t->err);
    }
}

enum hsp_status hsp_kept_tidy(const char *dir, struct hsp_err *err)
{
    struct list *l = NULL;
    struct tidying t = {.dir = dir, .err = err};
    enum hsp_status st = scan(dir, &l, &t.n, err);
    if (st != HSP_OK) {
        return st;
    }
    t.kept = l;
    st = hsp_papers_file_each(dir, tidy_one, &t, err);
    st = st == HSP_OK ? t.st : st;
    free(l);
    return st == HSP_ENOENT ? HSP_OK : st;
}

enum hsp_status hsp_kept_tidy_job(const char *dir, uint32_t job, struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    bool has = false;
    enum hsp_status st = hsp_segment_scan(dir, &info, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n && !has; i++) {
        struct hsp_segname name;
        has = hsp_segname_of(&info[i], &name) && name.job == job;
    }
    free(info);
    return st == HSP_OK && !has ? hsp_papers_file_remove(dir, job, err)
           : st == HSP_ENOENT   ? HSP_OK
                                : st;
}
