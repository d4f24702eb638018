#include "daemon/cluster/job_data.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"

#define RETRY_MS     30000u
#define MAX_DOUBLING 4u /* 8 minutes */
#define WHY_MAX      512

/* Nodes that are refused now are tried again after that. */
static hsp_msec pause_ms(const struct hsp_job *j)
{
    return (hsp_msec)RETRY_MS << (j->data_tries < MAX_DOUBLING ? j->data_tries : MAX_DOUBLING);
}

/* ---- one text for all ranks ---- */

void hsp_ci_data_refuse(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, uint32_t kind,
                        const char *why, const char *figures)
{
    uint32_t at = HSP_DEVICE_NODE(d);
    struct hsp_job_mark *mark = hsp_ci_mark(c, j, at);
    if (c->failed || mark->refused != NULL) {
        return;
    }
    mark->refused = strndup(why, WHY_MAX);
    if (mark->refused == NULL) {
        c->failed = true;
        return;
    }
    j->n_refused++;
    hsp_ci_jobs_dirty(c);
    if (j->data_retry_ms == 0) {
        j->data_retry_ms = c->now_ms + pause_ms(j);
    }
    const struct hsp_plan_fact fact = {kind, d, d, 0, 0};
    hsp_ci_learn(c, j, &fact, j->data_retry_ms, figures != NULL ? figures : why);
    hsp_ci_fact(c, "data.refused", HSP_SEV_WARN, j, &c->nodes[at], "%s%s%s%s", why,
                figures != NULL ? " (" : "", figures != NULL ? figures : "",
                figures != NULL ? ")" : "");
}

static bool same(const struct hsp_epoch_peer *p, uint64_t bytes, struct hsp_digest digest)
{
    return p->data_bytes == bytes && hsp_digest_equal(p->data_digest, digest);
}

/* How many nodes have the file that @like has. */
static uint32_t votes(const struct hsp_cl_epoch *e, const struct hsp_epoch_peer *like)
{
    uint8_t seen[HSP_MAX_NODES] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_ranks; i++) {
        uint32_t at = HSP_DEVICE_NODE(e->peers[i].device);
        if (seen[at] == 0 && same(&e->peers[i], like->data_bytes, like->data_digest)) {
            seen[at] = 1;
            n++;
        }
    }
    return n;
}

/* The file most nodes have; of two as frequent the one of the node whose name is first. */
static const struct hsp_epoch_peer *most(struct hsp_cluster *c, const struct hsp_cl_epoch *e)
{
    const struct hsp_epoch_peer *best = &e->peers[0];
    uint32_t best_n = votes(e, best);
    for (uint32_t i = 1; i < e->n_ranks; i++) {
        const struct hsp_epoch_peer *p = &e->peers[i];
        uint32_t n = votes(e, p);
        if (n > best_n || (n == best_n && strcmp(hsp_ci_node(c, p->device)->name,
                                                 hsp_ci_node(c, best->device)->name) < 0)) {
            best = p;
            best_n = n;
        }
    }
    return best;
}

bool hsp_ci_data_agrees(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cl_epoch *e = &j->att;
    bool begun = j->data_known, all = true;
    uint64_t bytes = begun ? j->data_bytes : e->peers[0].data_bytes;
    struct hsp_digest digest = begun ? j->data_digest : e->peers[0].data_digest;
    for (uint32_t i = 0; i < e->n_ranks; i++) {
        all = all && same(&e->peers[i], bytes, digest);
    }
    if (all) {
        j->data_known = true;
        j->data_bytes = bytes;
        j->data_tokens = e->peers[0].data_tokens;
        j->data_digest = digest;
        return true;
    }
    if (!begun) {
        const struct hsp_epoch_peer *p = most(c, e);
        bytes = p->data_bytes;
        digest = p->data_digest;
    }
    char right[HSP_DIGEST_HEX], wrong[HSP_DIGEST_HEX];
    const char *why = "";
    hsp_digest_hex(digest, right);
    for (uint32_t i = 0; i < e->n_ranks && !c->failed; i++) {
        const struct hsp_epoch_peer *p = &e->peers[i];
        const struct hsp_cluster_node *n = hsp_ci_node(c, p->device);
        const struct hsp_job_mark *mark = hsp_ci_marked(j, HSP_DEVICE_NODE(p->device));
        if (same(p, bytes, digest) || (mark != NULL && mark->refused != NULL)) {
            continue;
        }
        hsp_digest_hex(p->data_digest, wrong);
        const char *whose = begun ? "the job began with" : "other nodes have";
        const char *one = hsp_ci_printf(
            c, "%s: %s differs from the file that %s; %s", n->name, j->data_path, whose,
            begun ? "put that file back, or cancel the job and submit it again to start anew"
                  : "give all nodes the same file");
        const char *figures = hsp_ci_printf(
            c, "%s: %llu bytes, digest %s; %s %llu bytes, digest %s", j->data_path,
            (unsigned long long)p->data_bytes, wrong, whose, (unsigned long long)bytes, right);
        hsp_ci_data_refuse(c, j, p->device, HSP_FACT_DATA_DIFFERS, one, figures);
        why = why[0] == '\0' ? one : why;
    }
    hsp_ci_attempt_refused(c, j, why);
    return false;
}

/* ---- nodes that are refused ---- */

const char *hsp_ci_data_why(struct hsp_cluster *c, const struct hsp_job *j)
{
    const char *first = NULL;
    uint32_t n = j->n_refused;
    for (uint32_t i = 0; i < j->n_marks && first == NULL; i++) {
        first = j->marks[i].refused;
    }
    if (n == 0) {
        return "";
    }
    const char *more = n > 1 ? hsp_ci_printf(c, "; and %u more", n - 1) : "";
    return hsp_ci_printf(c, ": %s%s; it is tried again by itself within %u s", first, more,
                         (uint32_t)(pause_ms(j) / 1000)); /* the same text until then: one event */
}

void hsp_ci_data_forget(struct hsp_job *j, uint32_t node)
{
    struct hsp_job_mark *mark = hsp_ci_marked(j, node);
    if (mark != NULL) {
        j->n_refused -= mark->refused != NULL;
        free(mark->refused);
        mark->refused = NULL;
    }
    hsp_ci_unlearn_node(j, node, true);
}

void hsp_ci_data_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->data_retry_ms == 0 || c->now_ms < j->data_retry_ms) {
        return;
    }
    j->data_retry_ms = 0;
    j->data_tries++;
    hsp_ci_jobs_dirty(c);
    for (uint32_t i = 0; i < j->n_marks; i++) {
        if (j->marks[i].refused != NULL) {
            hsp_ci_data_forget(j, j->marks[i].node);
        }
    }
}
