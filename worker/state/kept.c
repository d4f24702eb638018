#include "worker/state/kept.h"

#include <stdlib.h>

#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

static struct hsp_m_kept *of_job(struct hsp_m_kept *list, uint32_t *n, uint32_t job)
{
    uint32_t i = 0;
    while (i < *n && list[i].job != job) {
        i++;
    }
    if (i == HSP_MSG_KEPT) {
        return NULL;
    }
    if (i == *n) {
        list[(*n)++] = (struct hsp_m_kept){.job = job, .name = ""};
    }
    return &list[i];
}

/* Whose it is, the newest layout says; those of no cluster say nothing. */
static void note(struct hsp_m_kept *k, const struct hsp_segment_info *i, uint64_t plan)
{
    bool says = i->status == HSP_OK && !hsp_cluster_none(i->whose.cluster);
    if (says && (plan >= k->plan || hsp_cluster_none(k->cluster))) {
        k->cluster = i->whose.cluster;
        k->generation = i->whose.generation;
    }
    k->plan = plan > k->plan ? plan : k->plan;
}

enum hsp_status hsp_kept_scan(const char *dir, struct hsp_m_kept **ret, uint32_t *ret_n,
                              struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    uint32_t m = 0;
    enum hsp_status st = hsp_segment_scan(dir, &info, &n, err);
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st;
    }
    struct hsp_m_kept *list = calloc(HSP_MSG_KEPT, sizeof *list);
    for (size_t i = 0; list != NULL && i < n; i++) {
        struct hsp_segment_key key = info[i].key;
        struct hsp_segname name;
        if ((info[i].status == HSP_OK || hsp_segment_key_parse(info[i].file, &key)) &&
            hsp_segname_parse(&key, &name)) {
            struct hsp_m_kept *k = of_job(list, &m, name.job);
            if (k != NULL) {
                note(k, &info[i], name.plan);
            }
        }
    }
    free(info);
    if (list == NULL) {
        return hsp_err_nomem(err, "%u jobs", HSP_MSG_KEPT);
    }
    *ret = list;
    *ret_n = m;
    return HSP_OK;
}
