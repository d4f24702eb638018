#include "daemon/cluster/rows.h"

#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/row_forms.h"
#include "proto/base/str.h"

/* In the arena of the step; @b is released. */
static struct hsp_cluster_row row_of(struct hsp_cluster *c, const char *key, struct hsp_buf *b)
{
    void *copy = b->failed ? NULL : hsp_arena_memdup(c->arena, b->data, b->len);
    struct hsp_cluster_row r = {key, copy, (uint32_t)b->len};
    c->failed = c->failed || copy == NULL;
    hsp_buf_fini(b);
    return r;
}

static void store_row(struct hsp_cluster *c, struct hsp_cluster_row r)
{
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_STORE);
    a->key = r.key;
    a->value = r.value;
    a->len = r.len;
}

static void store(struct hsp_cluster *c, const char *key, struct hsp_buf *b)
{
    store_row(c, row_of(c, key, b));
}

void hsp_ci_store_cluster(struct hsp_cluster *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_u64(&b, c->id.hi);
    hsp_buf_u64(&b, c->id.lo);
    hsp_buf_u64(&b, c->generation);
    hsp_buf_u8(&b, c->behind);
    hsp_buf_str(&b, c->behind_why);
    hsp_buf_str(&b, c->behind_by);
    hsp_buf_u64(&b, c->ahead);
    hsp_buf_u32(&b, c->n_adopted);
    for (uint32_t i = 0; i < c->n_adopted; i++) {
        hsp_buf_u64(&b, c->adopted[i].hi);
        hsp_buf_u64(&b, c->adopted[i].lo);
    }
    store(c, "cluster", &b);
}

static void put_ranges(struct hsp_buf *b, const struct hsp_range *r, uint32_t n)
{
    hsp_buf_u32(b, n);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_u64(b, r[i].from);
        hsp_buf_u64(b, r[i].to);
    }
}

void hsp_ci_store_ended(struct hsp_cluster *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    put_ranges(&b, c->ended, c->n_ended);
    store(c, "ended", &b);
}

void hsp_ci_store_adopted_ended(struct hsp_cluster *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_u32(&b, c->n_adopted_ended);
    for (uint32_t i = 0; i < c->n_adopted_ended; i++) {
        hsp_buf_u64(&b, c->adopted_ended[i].cluster.hi);
        hsp_buf_u64(&b, c->adopted_ended[i].cluster.lo);
        hsp_buf_u32(&b, c->adopted_ended[i].job);
    }
    store(c, "adopted", &b);
}

void hsp_ci_store_term(struct hsp_cluster *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_u64(&b, c->term);
    hsp_buf_u64(&b, c->next_incarnation);
    hsp_buf_u32(&b, c->next_job);
    store(c, "term", &b);
}

static void put_line(struct hsp_buf *b, const struct hsp_node_line *l)
{
    hsp_buf_u64(b, l->secret.hi);
    hsp_buf_u64(b, l->secret.lo);
    hsp_buf_u64(b, l->before.hi);
    hsp_buf_u64(b, l->before.lo);
    hsp_buf_u64(b, l->since);
    hsp_buf_u64(b, l->last);
    hsp_buf_u64(b, l->gap);
    hsp_buf_u64(b, l->gap_end);
}

static struct hsp_cluster_row node_row(struct hsp_cluster *c, uint32_t index,
                                       const struct hsp_cluster_node *n)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_str(&b, n->name);
    hsp_buf_u64(&b, n->incarnation);
    hsp_buf_u8(&b, n->state == HSP_NODE_DEAD ? 1 : n->state == HSP_NODE_LEFT ? 2 : 0);
    hsp_buf_u8(&b, n->draining);
    hsp_buf_str(&b, n->reason);
    hsp_buf_u64(&b, n->secret.hi);
    hsp_buf_u64(&b, n->secret.lo);
    hsp_buf_u64(&b, n->before.hi);
    hsp_buf_u64(&b, n->before.lo);
    hsp_buf_u64(&b, n->same_since);
    hsp_buf_u8(&b, n->holder);
    hsp_buf_u64(&b, n->gone_s);
    hsp_buf_u64(&b, n->generation);
    hsp_buf_u64(&b, n->gap);
    hsp_buf_u64(&b, n->gap_end);
    for (uint32_t i = 0; i < HSP_NODE_LINES; i++) {
        put_line(&b, &n->left[i]);
    }
    return row_of(c, hsp_ci_printf(c, "node/%u", index), &b);
}

void hsp_ci_store_node(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    store_row(c, node_row(c, hsp_ci_index_of(c, n), n));
}

/* Leaves out the incarnation: nobody but hspmdd and the node itself may know the proof of its
 * identity. */
struct hsp_cluster_row hsp_ci_name_row(struct hsp_cluster *c, uint32_t index)
{
    struct hsp_cluster_node bare = {.state = HSP_NODE_LEFT};
    hsp_str_printf(bare.name, sizeof(bare.name), "%s", c->nodes[index].name);
    return node_row(c, index, &bare);
}

static void put_ckpt(struct hsp_buf *b, const struct hsp_ckpt_mark *k)
{
    hsp_buf_u64(b, k->term);
    hsp_buf_u64(b, k->epoch);
    hsp_buf_u64(b, k->content);
}

static void put_past(struct hsp_buf *b, const struct hsp_job *j)
{
    hsp_buf_u32(b, j->n_past);
    for (uint32_t i = 0; i < j->n_past; i++) {
        const struct hsp_past_epoch *p = &j->past[i];
        hsp_buf_u64(b, p->epoch);
        hsp_buf_u32(b, p->n);
        for (uint32_t k = 0; k < p->n; k++) {
            hsp_buf_u32(b, p->node[k]);
            hsp_buf_u64(b, p->incarnation[k]);
        }
    }
}

static void put_older(struct hsp_buf *b, const struct hsp_job *j)
{
    hsp_buf_u32(b, j->checkpoint_keep);
    hsp_buf_u32(b, j->n_older);
    for (uint32_t i = 0; i < j->n_older; i++) {
        hsp_buf_u64(b, j->older[i].step);
        put_ckpt(b, &j->older[i].mark);
    }
}

static void put_cuts(struct hsp_buf *b, const struct hsp_ckpt_cuts *h)
{
    hsp_buf_u32(b, h->n);
    for (uint32_t i = 0; i < h->n; i++) {
        hsp_buf_u64(b, h->cut[i].from);
        hsp_buf_u64(b, h->cut[i].epoch);
        hsp_buf_u64(b, h->cut[i].step);
    }
}

static void put_epoch(struct hsp_buf *b, const struct hsp_cl_epoch *e)
{
    hsp_buf_u64(b, e->epoch);
    if (e->epoch == 0) {
        return;
    }
    hsp_buf_u64(b, e->plan);
    hsp_buf_u64(b, e->from_plan);
    hsp_buf_u64(b, e->base_epoch);
    hsp_buf_u8(
        b, (uint8_t)(e->mode | (e->share_notes ? SHARE_NOTES : 0) | (e->live ? SEALS_LIVE : 0)));
    hsp_buf_u8(b, (uint8_t)e->phase);
    hsp_buf_u64(b, e->step);
    hsp_buf_u32(b, e->n_ranks);
    hsp_buf_u32(b, e->n_replica_holders);
    hsp_buf_u8(b, e->data_tls);
    hsp_buf_str(b, e->trusted);
    hsp_buf_u8(b, e->settled);
    hsp_buf_str(b, e->cause);
    hsp_buf_u32(b, e->links.shm);
    hsp_buf_u32(b, e->links.local);
    hsp_buf_u32(b, e->links.tls);
    hsp_buf_u32(b, e->links.tcp);
    hsp_buf_u32(b, e->n_peers);
    for (uint32_t i = 0; i < e->n_peers; i++) {
        hsp_buf_u32(b, e->peers[i].device);
        hsp_buf_u64(b, e->peers[i].incarnation);
    }
}

static void put_ran(struct hsp_buf *b, const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        n += j->marks[i].ran;
    }
    hsp_buf_u8(b, (uint8_t)((j->ran_unknown ? RAN_UNKNOWN : 0) | (j->anew ? RAN_ANEW : 0) |
                            (j->ckpt_asked ? CKPT_ASKED : 0)));
    hsp_buf_u32(b, n);
    for (uint32_t i = 0; i < j->n_marks; i++) {
        if (j->marks[i].ran) {
            hsp_buf_u32(b, j->marks[i].node);
        }
    }
}

static struct hsp_cluster_row job_row(struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_u32(&b, j->id);
    hsp_buf_str(&b, j->name);
    hsp_buf_u32(&b, (uint32_t)j->priority);
    hsp_buf_u32(&b, j->min);
    hsp_buf_u32(&b, j->max);
    hsp_buf_u32(&b, j->copies);
    hsp_buf_u64(&b, j->steps);
    hsp_buf_u64(&b, j->checkpoint_every);
    hsp_buf_u8(&b, j->checkpoint_shared);
    hsp_buf_str(&b, j->data_path);
    hsp_buf_str(&b, j->checkpoint_path);
    hsp_buf_u8(&b, (uint8_t)j->state);
    hsp_buf_str(&b, j->reason);
    hsp_buf_u64(&b, j->next_epoch);
    hsp_buf_u64(&b, j->next_plan);
    hsp_buf_u8(&b, (uint8_t)j->origin);
    hsp_buf_u64(&b, j->origin_step);
    hsp_buf_u8(&b, j->has_ckpt);
    hsp_buf_u64(&b, j->ckpt_step);
    hsp_buf_u64(&b, j->stable);
    hsp_buf_u8(&b, j->data_known);
    hsp_buf_u64(&b, j->data_bytes);
    hsp_buf_u64(&b, j->data_tokens);
    hsp_buf_u64(&b, j->data_digest.hi);
    hsp_buf_u64(&b, j->data_digest.lo);
    hsp_buf_u8(&b, j->suspending);
    hsp_buf_u64(&b, hsp_ci_at_rest(j) ? j->lost_from : j->suspend_from);
    hsp_buf_u64(&b, j->begun);
    put_ckpt(&b, &j->origin_ckpt);
    put_ckpt(&b, &j->ckpt);
    put_epoch(&b, &j->cur);
    put_epoch(&b, &j->att);
    hsp_buf_u32(&b, j->n_leases);
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_buf_u32(&b, j->leases[i]);
        hsp_buf_u8(&b, (uint8_t)hsp_ci_device(c, j->leases[i])->ask);
    }
    put_past(&b, j);
    put_older(&b, j);
    put_ranges(&b, j->gap, j->n_gaps);
    hsp_buf_u8(&b, j->doubted);
    hsp_buf_str(&b, j->ahead);
    hsp_buf_u64(&b, j->from.hi);
    hsp_buf_u64(&b, j->from.lo);
    hsp_buf_u64(&b, j->born.hi);
    hsp_buf_u64(&b, j->born.lo);
    put_cuts(&b, &j->cuts);
    put_cuts(&b, j->att.phase == HSP_ATT_GO ? &j->line : &(const struct hsp_ckpt_cuts){0});
    put_ran(&b, j);
    return row_of(c, hsp_ci_printf(c, "job/%u", j->id), &b);
}

void hsp_ci_store_job(struct hsp_cluster *c, struct hsp_job *j)
{
    if (!j->unrecorded) {
        store_row(c, job_row(c, j));
        j->stale_row = false;
    }
}

struct hsp_cluster_row hsp_ci_terms_row(struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_job bare = *j;
    bare.cur = bare.att = (struct hsp_cl_epoch){0};
    bare.n_leases = bare.n_past = bare.n_marks = 0;
    bare.doubted = bare.ran_unknown = false;
    bare.ahead[0] = '\0';
    if (j->att.epoch != 0 && (j->att.mode == HSP_MODE_FRESH || j->att.mode == HSP_MODE_RESTORE)) {
        bare.anew = false;
        bare.begun = j->att.epoch; /* as far as a coordinator with these papers alone will know */
    }
    hsp_ci_cuts_of(j, &j->att, &bare.cuts);
    return job_row(c, &bare);
}

void hsp_ci_store_leases(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->stale_row) {
        hsp_ci_store_job(c, j);
    }
}

void hsp_ci_store_all_leases(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        hsp_ci_store_leases(c, c->jobs[i]);
    }
}

struct hsp_cluster_row hsp_ci_plan_row(struct hsp_cluster *c, const struct hsp_job *j,
                                       const struct hsp_job_plan *p)
{
    const struct hsp_plan_info *i = &p->info;
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_CLUSTER_ROW_MAX);
    hsp_buf_u8(&b, ROW_VERSION);
    hsp_buf_u32(&b, j->id);
    hsp_buf_u64(&b, p->plan);
    hsp_buf_u8(&b, p->started);
    hsp_buf_u64(&b, p->since);
    hsp_buf_f64(&b, i->step_s);
    hsp_buf_str(&b, i->why);
    hsp_buf_u32(&b, i->n_ranks);
    for (uint32_t r = 0; r < i->n_ranks; r++) {
        hsp_buf_u32(&b, i->device[r]);
        hsp_buf_u64(&b, i->mem_bytes[r]);
        hsp_buf_f64(&b, i->compute_s[r]);
        hsp_buf_f64(&b, i->speed[r]);
    }
    hsp_buf_u32(&b, i->n_shards);
    for (uint32_t s = 0; s < i->n_shards; s++) {
        hsp_buf_u32(&b, i->shard_first[s + 1] - i->shard_first[s]);
    }
    for (uint32_t k = 0; k < i->shard_first[i->n_shards]; k++) {
        hsp_buf_u32(&b, i->pieces[k].holder);
        hsp_buf_u32(&b, i->pieces[k].owner);
    }
    hsp_buf_u32(&b, i->n_spare);
    hsp_buf_u64(&b, i->keep_bytes);
    hsp_buf_u32(&b, i->n_replica_holders);
    for (uint32_t k = 0; k < i->n_replica_holders; k++) {
        hsp_buf_u32(&b, i->replica_holder[k]);
    }
    hsp_buf_u32(&b, p->holder != NULL ? i->n_ranks + i->n_replica_holders : 0);
    for (uint32_t k = 0; p->holder != NULL && k < i->n_ranks + i->n_replica_holders; k++) {
        hsp_buf_u64(&b, p->holder[k]);
    }
    hsp_buf_u64(&b, p->void_from);
    hsp_buf_u64(&b, p->epoch);
    hsp_buf_u64(&b, p->from_plan);
    hsp_buf_u64(&b, p->from_step);
    return row_of(c, hsp_ci_printf(c, "plan/%u/%llu", j->id, (unsigned long long)p->plan), &b);
}

void hsp_ci_store_plan(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_job_plan *p)
{
    store_row(c, hsp_ci_plan_row(c, j, p));
}
