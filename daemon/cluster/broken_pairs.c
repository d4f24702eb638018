#include "daemon/cluster/broken_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/place.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define FIRST_MS  5000u  /* between measurements: a call costs next to nothing; doubled each time */
#define LAST_MS   60000u /* that the pair breaks again, up to it, as each time costs jobs a pause */
#define MENDED_MS 600000u /* behind it that is forgotten */
#define AGAIN_MS  60000u  /* two silences, or one and a stall, within that are one fault */
#define SLOW_PART 0.5     /* of the rate of plans: less is slow */
#define PROBED_MS 60000u  /* least time between measurements of a pair that is used */
#define FRESH_MS  10000u  /* a suspicion is being measured, or cannot be */

static int by_nodes(const void *key, const void *item)
{
    const struct hsp_broken_pair *x = key, *y = item;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

static uint32_t place_of(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    const struct hsp_broken_pair key = {.a = a, .b = b};
    return (uint32_t)hsp_place(&key, c->pairs, c->n_pairs, sizeof(*c->pairs), by_nodes);
}

/* NULL: nothing is known of them. */
static struct hsp_broken_pair *find(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a, at = place_of(c, lo, hi);
    bool there = at < c->n_pairs && c->pairs[at].a == lo && c->pairs[at].b == hi;
    return there ? &c->pairs[at] : NULL;
}

static void remove_at(struct hsp_cluster *c, uint32_t at)
{
    c->n_broken -= c->pairs[at].broken;
    c->n_pairs--;
    memmove(&c->pairs[at], &c->pairs[at + 1], (c->n_pairs - at) * sizeof(*c->pairs));
}

static void make_room(struct hsp_cluster *c)
{
    for (uint32_t i = c->n_pairs; i-- > 0 && c->n_pairs == HSP_MAX_PAIRS;) {
        if (!c->pairs[i].broken) {
            remove_at(c, i);
        }
    }
}

/* Found, or made. NULL: there is no room. */
static struct hsp_broken_pair *pair_of(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    struct hsp_broken_pair *p = find(c, a, b);
    if (p != NULL) {
        return p;
    }
    make_room(c);
    if (c->n_pairs == HSP_MAX_PAIRS) {
        return NULL;
    }
    if (!hsp_grow(&c->pairs, &c->cap_pairs, (size_t)c->n_pairs + 1, sizeof(*c->pairs),
                  HSP_MAX_PAIRS)) {
        c->failed = true;
        return NULL;
    }
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a, at = place_of(c, lo, hi);
    memmove(&c->pairs[at + 1], &c->pairs[at], (c->n_pairs - at) * sizeof(*c->pairs));
    c->n_pairs++;
    c->pairs[at] = (struct hsp_broken_pair){
        .a = lo, .b = hi, .since_ms = c->now_ms, .next_ms = c->now_ms + MENDED_MS};
    return &c->pairs[at];
}

bool hsp_ci_apart(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    const struct hsp_broken_pair *p = c->n_broken > 0 && a != b ? find(c, a, b) : NULL;
    return p != NULL && p->broken;
}

bool hsp_ci_deaf(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    const struct hsp_broken_pair *p = c->n_broken > 0 && a != b ? find(c, a, b) : NULL;
    return p != NULL && p->broken && !p->slow;
}

static bool is_recent(const struct hsp_cluster *c, hsp_msec at)
{
    return at != 0 && c->now_ms < at + AGAIN_MS;
}

/* The pair has held up a job lately, and not in the outage that ends epochs of @j now: votes of @j
 * have passed since, or the job has waited longer than executors do before they say that a peer is
 * silent. */
static bool stalled_before(const struct hsp_cluster *c, const struct hsp_job *j,
                           const struct hsp_broken_pair *p)
{
    bool over =
        j->progress.since_ms >= p->stalled_ms || c->now_ms >= p->stalled_ms + c->cfg.dead_ms;
    return is_recent(c, p->stalled_ms) && over;
}

/* Each loss counts once, when one of the two has told of it. */
void hsp_ci_pair_suspect(struct hsp_cluster *c, const struct hsp_job *j, uint64_t epoch, uint32_t a,
                         uint32_t b, bool own)
{
    struct hsp_broken_pair *p = a != b ? pair_of(c, a, b) : NULL;
    bool same = p != NULL && p->job == j->id && p->epoch == epoch;
    if (p == NULL || (same && (p->own || !own))) {
        return;
    }
    if (own) {
        p->suspects = (is_recent(c, p->suspect_ms) ? p->suspects : 0) + 1;
        p->suspects += p->suspects == 1 && stalled_before(c, j, p);
        p->suspect_ms = c->now_ms;
    }
    p->suspects = p->suspects > 0 ? p->suspects : 1;
    p->said_ms = c->now_ms;
    p->job = j->id;
    p->epoch = epoch;
    p->own = own;
}

bool hsp_ci_pair_stalled(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    struct hsp_broken_pair *p = pair_of(c, a, b);
    if (p == NULL) {
        return false;
    }
    p->stalled_ms = c->now_ms;
    return p->suspects > 0 && is_recent(c, p->suspect_ms);
}

/* True when the round that follows the suspicion is under way. */
static bool is_fresh(const struct hsp_cluster *c, const struct hsp_broken_pair *p)
{
    return p->suspects > 0 && c->now_ms < p->said_ms + FRESH_MS;
}

/* Between two measurements of a broken pair. */
static uint32_t pause_of(const struct hsp_broken_pair *p)
{
    uint32_t ms = FIRST_MS;
    for (uint32_t k = 1; k < p->times && ms < LAST_MS; k++) {
        ms *= 2;
    }
    return ms < LAST_MS ? ms : LAST_MS;
}

static void found_broken(struct hsp_cluster *c, struct hsp_broken_pair *p, const char *why)
{
    p->suspects = 0;
    p->stalled_ms = 0;
    hsp_str_printf(p->why, sizeof(p->why), "%s", why);
    if (p->broken) {
        return;
    }
    p->broken = true;
    p->times += p->times < UINT32_MAX;
    p->since_ms = c->now_ms;
    p->next_ms = c->now_ms + pause_of(p);
    c->n_broken++;
    const char *a = c->nodes[p->a].name, *b = c->nodes[p->b].name;
    const char *what = p->slow
                           ? hsp_ci_printf(c, "the connection between %s and %s is too slow", a, b)
                           : hsp_ci_printf(c, "%s and %s cannot reach each other", a, b);
    hsp_ci_fact(c, "link.broken", HSP_SEV_WARN, NULL, &c->nodes[p->a],
                "%s: %s; jobs use only one of them, and their connection is %s every %u s", what,
                why, p->slow ? "measured" : "tried", pause_of(p) / 1000);
    hsp_ci_jobs_dirty(c);
}

static void mend(struct hsp_cluster *c, struct hsp_broken_pair *p, const char *what)
{
    p->broken = p->slow = p->to_probe = false;
    c->n_broken--;
    p->since_ms = c->now_ms;
    p->next_ms = c->now_ms + MENDED_MS;
    hsp_ci_fact(c, "link.mended", HSP_SEV_NOTICE, NULL, &c->nodes[p->a], "%s and %s %s",
                c->nodes[p->a].name, c->nodes[p->b].name, what);
    hsp_ci_jobs_dirty(c);
}

/* ---- slow pairs ---- */

bool hsp_ci_pair_slow(struct hsp_cluster *c, uint32_t a, uint32_t b, const char *why)
{
    struct hsp_broken_pair *p = a != b ? pair_of(c, a, b) : NULL;
    if (p == NULL || c->now_ms < p->borne_until) {
        return false;
    }
    p->slow = !p->broken || p->slow;
    found_broken(c, p, why);
    return true;
}

bool hsp_ci_pairs_bear(struct hsp_cluster *c, const struct hsp_job *j)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        struct hsp_broken_pair *p = &c->pairs[i];
        if (p->broken && p->slow) {
            any = true;
            mend(c, p,
                 hsp_ci_printf(c, "are used in spite of their slow connection: %s needs both",
                               j->name));
            p->borne_until = c->now_ms + MENDED_MS;
        }
    }
    return any;
}

bool hsp_ci_pair_to_probe(struct hsp_cluster *c, uint32_t *ret_a, uint32_t *ret_b)
{
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        struct hsp_broken_pair *p = &c->pairs[i];
        if (p->to_probe && c->nodes[p->a].conn != 0 && c->nodes[p->b].conn != 0) {
            p->to_probe = false;
            *ret_a = p->a;
            *ret_b = p->b;
            return true;
        }
    }
    return false;
}

void hsp_ci_pair_doubt(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    struct hsp_broken_pair *p = a != b ? pair_of(c, a, b) : NULL;
    if (p != NULL && !p->broken && (p->probed_ms == 0 || c->now_ms >= p->probed_ms + PROBED_MS)) {
        p->to_probe = true;
    }
}

double hsp_ci_pair_rate(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    const struct hsp_broken_pair *p = find(c, a, b);
    return p != NULL ? p->bytes_per_s : 0;
}

/* A broken pair whose rate was measured. */
static void try_mend(struct hsp_cluster *c, struct hsp_broken_pair *p, double rate, double planned,
                     const char *why)
{
    p->next_ms = c->now_ms + pause_of(p);
    if (rate >= SLOW_PART * planned && why == NULL) {
        mend(c, p, hsp_ci_printf(c, "are connected by %.4g MB/s again", 1e-6 * rate));
    } else if (why != NULL) {
        hsp_str_printf(p->why, sizeof(p->why), "%s", why); /* cut on purpose */
    } else {
        hsp_str_printf(p->why, sizeof(p->why), "%.4g MB/s, where plans assume %.4g", 1e-6 * rate,
                       1e-6 * planned);
    }
}

/* A pair that is used. A rate near the one before changes nothing. */
static bool take_rate(struct hsp_cluster *c, struct hsp_broken_pair *p, double rate, double planned)
{
    double now = rate < SLOW_PART * planned ? rate : 0, before = p->bytes_per_s;
    bool slower = now > 0 && (before == 0 || now < SLOW_PART * before);
    bool faster = before > 0 && (now == 0 || SLOW_PART * now > before);
    if (!slower && !faster) {
        return false;
    }
    p->bytes_per_s = now;
    p->next_ms = c->now_ms + PROBED_MS;
    hsp_ci_fact(c, "link.rate", slower ? HSP_SEV_WARN : HSP_SEV_NOTICE, NULL, &c->nodes[p->a],
                "%s and %s are connected by %.4g MB/s, where plans assumed %.4g",
                c->nodes[p->a].name, c->nodes[p->b].name, 1e-6 * rate,
                1e-6 * (before > 0 ? before : planned));
    return true;
}

bool hsp_ci_pair_probed(struct hsp_cluster *c, uint32_t a, uint32_t b, double rate, double planned,
                        const char *why)
{
    struct hsp_broken_pair *p = find(c, a, b);
    if (p == NULL || (p->broken && !p->slow)) {
        return false;
    }
    p->to_probe = false;
    p->probed_ms = c->now_ms;
    if (p->broken) {
        try_mend(c, p, rate, planned, why);
        return false; /* a mended pair comes back into use anyway */
    }
    return why == NULL && rate > 0 && take_rate(c, p, rate, planned);
}

/* ---- pairs that are called ---- */

void hsp_ci_pair_deaf(struct hsp_cluster *c, uint32_t a, uint32_t b, const char *why)
{
    struct hsp_broken_pair *p = pair_of(c, a, b);
    if (p != NULL) {
        found_broken(c, p, why);
    }
}

void hsp_ci_pair_answered(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    struct hsp_broken_pair *p = find(c, a, b);
    if (p == NULL) {
        return;
    }
    if (p->suspects > 1 && is_fresh(c, p)) {
        found_broken(c, p, "calls are answered, but too few other messages pass");
    } else if (p->broken && !p->slow) { /* calls move too little to tell */
        mend(c, p, "reach each other again");
    }
}

void hsp_ci_pair_unmeasured(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    struct hsp_broken_pair *p = find(c, a, b);
    if (p != NULL && (is_fresh(c, p) || p->broken)) {
        found_broken(c, p, "executors fell silent to each other");
    }
}

void hsp_ci_pairs_forget(struct hsp_cluster *c, uint32_t node)
{
    uint32_t broken = c->n_broken;
    for (uint32_t i = c->n_pairs; i-- > 0;) {
        if (c->pairs[i].a == node || c->pairs[i].b == node) {
            remove_at(c, i);
        }
    }
    if (c->n_broken < broken) {
        hsp_ci_jobs_dirty(c);
    }
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t add(uint32_t *list, uint32_t n, uint32_t node)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == node) {
            return n;
        }
    }
    list[n] = node;
    return n + 1;
}

uint32_t hsp_ci_pairs_due_nodes(struct hsp_cluster *c, uint32_t *ret, uint32_t cap)
{
    uint32_t n = 0;
    for (uint32_t i = c->n_pairs; i-- > 0;) {
        struct hsp_broken_pair *p = &c->pairs[i];
        if (c->now_ms < p->next_ms) {
            continue;
        }
        if (!p->broken && p->bytes_per_s > 0) {
            p->to_probe = true;
            p->next_ms = c->now_ms + PROBED_MS;
        } else if (!p->broken) {
            remove_at(c, i);
        } else if (p->slow) {
            p->to_probe = true;
            p->next_ms = c->now_ms + pause_of(p);
        } else if (n + 2 <= cap) {
            n = add(ret, add(ret, n, p->a), p->b);
            p->next_ms = c->now_ms + pause_of(p);
        }
    }
    if (n > 1) {
        qsort(ret, n, sizeof(*ret), ascending);
    }
    return n;
}

hsp_msec hsp_ci_pairs_due(const struct hsp_cluster *c)
{
    hsp_msec best = HSP_NEVER;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        best = c->pairs[i].next_ms < best ? c->pairs[i].next_ms : best;
    }
    return best;
}

void hsp_ci_pairs_fini(struct hsp_cluster *c)
{
    free(c->pairs);
}
