#include "daemon/cluster/crowd.h"

#include <stdlib.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/place.h"

#define AGAIN_MS  30000u /* least pause before the next call; the most is twice that */
#define STRIDE_MS 7919u
#define TELL_MS   60000u
/* Lines of one kind that one address may cause in that time. */
#define COMPLAINTS  8u
#define COMPLAIN_MS 60000u

enum rank { STRANGER, NAMED, PROVEN };

static enum rank rank_of(const struct hsp_cluster *c, enum hsp_parked_as as, const char *name)
{
    uint32_t at;
    bool absent = hsp_map_get(&c->by_name, name, &at) && c->nodes[at].conn == 0;
    return as == HSP_PARKED_AHEAD ? PROVEN : absent ? NAMED : STRANGER;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* How many of @n values, ascending, are below @value. */
static uint32_t n_below(const uint64_t *list, uint32_t n, uint64_t value)
{
    return (uint32_t)hsp_place(&value, list, n, sizeof(*list), ascending);
}

struct counted { /* the sources of all that have a place, ascending */
    uint64_t *source;
    uint32_t n;
};

static uint32_t n_of(const struct counted *k, uint64_t source)
{
    uint32_t end = source < UINT64_MAX ? n_below(k->source, k->n, source + 1) : k->n;
    return end - n_below(k->source, k->n, source);
}

struct candidate {
    const struct hsp_parked *p; /* NULL: none */
    /* the rank that counts; the rank that it would have in a source with few places */
    enum rank rank, name;
    uint32_t n; /* places of its source */
};

/* A rank in a source with @n places, of @most in all. */
static enum rank counted_rank(enum rank r, uint32_t n, uint32_t most)
{
    uint32_t share = most < 4 ? 1 : most / 4;
    return r != PROVEN && n > share ? STRANGER : r;
}

static bool sooner(const struct candidate *a, const struct candidate *b)
{
    return b->p == NULL         ? true
           : a->rank != b->rank ? a->rank < b->rank
           : a->n != b->n       ? a->n > b->n
           : a->name != b->name ? a->name < b->name
                                : a->p->since < b->p->since;
}

/* Whose place @who takes where all @most are taken; NULL: there is none. */
static const struct hsp_parked *in_its_way(struct hsp_cluster *c,
                                           const struct hsp_crowd_caller *who, uint32_t most)
{
    struct counted k = {hsp_ci_alloc(c, (size_t)c->n_parked + 1, sizeof(*k.source)), 0};
    struct candidate best = {NULL, STRANGER, STRANGER, 0};
    for (uint32_t i = 0; k.source != NULL && i < c->n_parked; i++) {
        k.source[k.n++] = c->parked[i].source;
    }
    if (k.source == NULL) {
        return NULL;
    }
    qsort(k.source, k.n, sizeof(*k.source), ascending);
    const uint32_t n_own = n_of(&k, who->source);
    const enum rank own = counted_rank(rank_of(c, who->as, who->name), n_own + 1, most);
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *p = &c->parked[i];
        const uint32_t n = n_of(&k, p->source);
        const enum rank name = rank_of(c, p->as, p->name);
        const struct candidate x = {p, counted_rank(name, n, most), name, n};
        bool turn = n >= n_own && c->now_ms >= p->since_ms + HSP_CROWD_TURN_MS;
        bool may = x.rank < own || (x.rank == own && (n > n_own + 1 || turn));
        best = may && sooner(&x, &best) ? x : best;
    }
    return best.p;
}

/* The one that names more jobs than @who, and the most, and is of no higher rank; NULL:
 * there is none. */
static const struct hsp_parked *heaviest(const struct hsp_cluster *c,
                                         const struct hsp_crowd_caller *who)
{
    const enum rank own = rank_of(c, who->as, who->name);
    const struct hsp_parked *most = NULL;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *p = &c->parked[i];
        bool may = rank_of(c, p->as, p->name) <= own;
        most = may && p->n_jobs > (most != NULL ? most->n_jobs : who->n_kept) ? p : most;
    }
    return most;
}

bool hsp_ci_crowd_place(struct hsp_cluster *c, const struct hsp_crowd_caller *who,
                        const struct hsp_parked **ret)
{
    uint32_t most = c->cfg.max_parked < HSP_MAX_PARKED ? c->cfg.max_parked : HSP_MAX_PARKED;
    *ret = NULL;
    if (c->n_parked >= most) {
        *ret = in_its_way(c, who, most);
    } else if (c->n_parked_jobs + who->n_kept > HSP_MAX_PARKED_JOBS) {
        *ret = heaviest(c, who);
    } else {
        return true;
    }
    return *ret != NULL;
}

uint32_t hsp_ci_crowd_again(struct hsp_cluster *c)
{
    c->n_turned_away++;
    return AGAIN_MS + (uint32_t)((uint64_t)c->n_turned_away * STRIDE_MS % AGAIN_MS);
}

void hsp_ci_crowd_tell(struct hsp_cluster *c, const char *name)
{
    if (c->now_ms < c->crowd_ms) {
        return;
    }
    c->crowd_ms = c->now_ms + TELL_MS;
    struct hsp_fact *f = hsp_ci_fact(
        c, "node.crowd", HSP_SEV_WARN, NULL, NULL,
        "%u agents that are not members are connected, and there is no room for more: some must "
        "connect later; adopt or discard their jobs (hspmdctl node list), or raise max_nodes",
        c->n_parked);
    if (f != NULL) {
        f->node = hsp_ci_printf(c, "%s", name);
    }
}

bool hsp_ci_may_complain(const struct hsp_cluster *c, struct hsp_complaints of[HSP_COMPLAINTS],
                         uint64_t source)
{
    struct hsp_complaints *x = &of[0];
    for (uint32_t i = 0; i < HSP_COMPLAINTS; i++) {
        struct hsp_complaints *k = &of[i];
        if (k->n > 0 && k->source == source) {
            x = k;
            break;
        }
        x = k->n == 0 || k->since < x->since ? k : x; /* the one that was counted longest ago */
    }
    if (x->n == 0 || x->source != source || c->now_ms - x->since >= COMPLAIN_MS) {
        *x = (struct hsp_complaints){.source = source, .since = c->now_ms};
    }
    x->n += x->n < COMPLAINTS + 1;
    return x->n <= COMPLAINTS;
}
