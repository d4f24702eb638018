#include "daemon/cluster/marks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/place.h"
#include "proto/base/vec.h"

#define WHY_MAX 240

static int by_node(const void *key, const void *item)
{
    const uint32_t *node = key;
    const struct hsp_job_mark *m = item;
    return (*node > m->node) - (*node < m->node);
}

static uint32_t place_of(const struct hsp_job *j, uint32_t node)
{
    return (uint32_t)hsp_place(&node, j->marks, j->n_marks, sizeof(*j->marks), by_node);
}

struct hsp_job_mark *hsp_ci_marked(const struct hsp_job *j, uint32_t node)
{
    uint32_t at = place_of(j, node);
    return at < j->n_marks && j->marks[at].node == node ? &j->marks[at] : NULL;
}

struct hsp_job_mark *hsp_ci_mark(struct hsp_cluster *c, struct hsp_job *j, uint32_t node)
{
    uint32_t at = place_of(j, node);
    if (at < j->n_marks && j->marks[at].node == node) {
        return &j->marks[at];
    }
    if (!hsp_grow(&j->marks, &j->cap_marks, (size_t)j->n_marks + 1, sizeof(*j->marks),
                  HSP_MAX_NODES)) {
        c->failed = true;
        return &c->spare_mark;
    }
    memmove(&j->marks[at + 1], &j->marks[at], (j->n_marks - at) * sizeof(*j->marks));
    j->n_marks++;
    j->marks[at] = (struct hsp_job_mark){.node = node};
    return &j->marks[at];
}

void hsp_ci_mark_no_replica_holder(struct hsp_cluster *c, struct hsp_job *j, uint32_t node,
                                   const char *why)
{
    struct hsp_job_mark *m = hsp_ci_mark(c, j, node);
    char *text = c->failed ? NULL : strndup(why, WHY_MAX);
    if (text == NULL) {
        c->failed = true;
        return;
    }
    hsp_ci_mark_may_keep(m);
    m->keep_refused = text;
    m->keep_since_ms = c->now_ms;
}

void hsp_ci_mark_may_keep(struct hsp_job_mark *m)
{
    free(m->keep_refused);
    m->keep_refused = NULL;
}

void hsp_ci_mark_ran(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cl_epoch *e)
{
    for (uint32_t i = 0; i < e->n_ranks && e->epoch != 0; i++) {
        hsp_ci_mark(c, j, HSP_DEVICE_NODE(e->peers[i].device))->ran = true;
    }
}

void hsp_ci_mark_none_ran(struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].ran = false;
    }
}

bool hsp_ci_any_ran(const struct hsp_job *j)
{
    bool any = false;
    for (uint32_t i = 0; i < j->n_marks && !any; i++) {
        any = j->marks[i].ran;
    }
    return any;
}

void hsp_ci_mark_drop(struct hsp_job *j, uint32_t node)
{
    uint32_t at = place_of(j, node);
    if (at < j->n_marks && j->marks[at].node == node) {
        j->n_refused -= j->marks[at].refused != NULL;
        free(j->marks[at].refused);
        hsp_ci_mark_may_keep(&j->marks[at]);
        j->n_marks--;
        memmove(&j->marks[at], &j->marks[at + 1], (j->n_marks - at) * sizeof(*j->marks));
    }
}

void hsp_ci_marks_free(struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_marks; i++) {
        free(j->marks[i].refused);
        hsp_ci_mark_may_keep(&j->marks[i]);
    }
    free(j->marks);
    j->marks = NULL;
    j->n_marks = 0;
    j->cap_marks = 0;
}
