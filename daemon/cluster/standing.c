#include "daemon/cluster/standing.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

/* Jobs end about in the order of their numbers, so few ranges hold all numbers. Beyond MAX_ENDED
 * the oldest ranges are forgotten: state of those jobs is then unknown here, and stays on its
 * agents. */
#define MAX_ENDED 4096u

/* Two clusters begin to number jobs somewhere else, so that one's state can be taken over by the
 * other. The first hundred million are left for that. */
#define JOB_NUMBERS 100000000u

/* Of those beyond ours that an agent may name the nearer ones: epochs of which checkpoints may be
 * seen. Epochs given above them can be, too. */
#define WRITTEN_GENERATIONS (HSP_NEXT_GENERATIONS / 2)

#define PATH_SHOWN 48u /* a longer one does not fit into the reason of a job */
#define SHORT_ID   8   /* digits of a cluster's id in texts */

/* ---- numbers ---- */

static void add_gap(struct hsp_job *j, uint64_t from, uint64_t to)
{
    if (j->n_gaps > 0 && j->gap[j->n_gaps - 1].to == from) { /* none was given between them */
        j->gap[j->n_gaps - 1].to = to;
        return;
    }
    if (j->n_gaps == HSP_JOB_GAPS) { /* the first two become one: more is unknown than need be */
        j->gap[0].to = j->gap[1].to;
        j->n_gaps--;
        memmove(&j->gap[1], &j->gap[2], (j->n_gaps - 1) * sizeof(j->gap[0]));
    }
    j->gap[j->n_gaps++] = (struct hsp_range){from, to};
}

uint64_t hsp_ci_next_epoch(const struct hsp_cluster *c, const struct hsp_job *j)
{
    uint64_t first = hsp_generation_first(c->generation);
    return j->next_epoch < first ? first : j->next_epoch;
}

uint64_t hsp_ci_take_epoch(const struct hsp_cluster *c, struct hsp_job *j)
{
    uint64_t first = hsp_generation_first(c->generation);
    if (j->next_epoch < first) {
        add_gap(j, j->next_epoch, first);
        j->next_epoch = first;
    }
    return j->next_epoch++;
}

uint64_t hsp_ci_take_plan(const struct hsp_cluster *c, struct hsp_job *j)
{
    uint64_t first = hsp_generation_first(c->generation);
    j->next_plan = j->next_plan < first ? first : j->next_plan;
    return j->next_plan++;
}

void hsp_ci_epoch_seen(struct hsp_job *j, uint64_t epoch)
{
    if (epoch >= j->next_epoch && epoch < UINT64_MAX) {
        add_gap(j, j->next_epoch, epoch + 1);
        j->next_epoch = epoch + 1;
    }
}

void hsp_ci_plan_seen(struct hsp_job *j, uint64_t plan)
{
    if (plan >= j->next_plan && plan < UINT64_MAX) {
        j->next_plan = plan + 1;
    }
}

bool hsp_ci_epoch_unknown(const struct hsp_job *j, uint64_t epoch)
{
    bool unknown = epoch >= j->next_epoch;
    for (uint32_t i = 0; i < j->n_gaps && !hsp_job_terminal(j->state); i++) {
        unknown = unknown || (epoch >= j->gap[i].from && epoch < j->gap[i].to);
    }
    return unknown;
}

void hsp_ci_found(struct hsp_cluster *c)
{
    c->id = c->cfg.fresh_id;
    c->generation = c->cfg.salt;
    if (c->next_job == 1) {
        c->next_job = 1 + (uint32_t)(c->id.lo % JOB_NUMBERS);
    }
}

static bool after(uint64_t a, uint64_t b)
{
    return hsp_generation_number(a) > hsp_generation_number(b);
}

void hsp_ci_generation_seen(struct hsp_cluster *c, uint64_t ahead)
{
    if (after(ahead, c->ahead)) {
        c->ahead = ahead;
        hsp_ci_store_cluster(c);
    }
}

void hsp_ci_raise(struct hsp_cluster *c, uint64_t least)
{
    least = after(c->ahead, least) ? c->ahead : least;
    c->ahead = 0;
    c->generation =
        hsp_generation_next(after(least, c->generation) ? least : c->generation, c->cfg.salt);
    uint64_t term = hsp_generation_number(c->generation) * HSP_GENERATION_NUMBERS;
    uint64_t job = (uint64_t)c->next_job + HSP_LOST_JOBS + c->cfg.salt % HSP_LOST_JOBS;
    c->term = c->term < term ? term : c->term;
    c->next_job = job < HSP_MAX_FOREIGN - HSP_LOST_JOBS ? (uint32_t)job : c->next_job;
    c->behind = false;
    c->behind_why[0] = c->behind_by[0] = '\0';
    hsp_ci_store_cluster(c);
    hsp_ci_store_term(c);
}

bool hsp_ci_raise_over_twin(struct hsp_cluster *c, const char *node, uint64_t generation)
{
    bool twin = hsp_ci_is_twin(c, generation);
    if (c->behind || !hsp_generation_ahead(generation, c->generation) || !(twin || c->restored)) {
        return false;
    }
    hsp_ci_raise(c, generation);
    hsp_ci_fact(c, "coordinator.restored", HSP_SEV_WARN, NULL, NULL,
                "node %s has obeyed generation %u of a store that was put back before: generation "
                "%u; jobs that have gone further are behind",
                node, hsp_generation_number(generation), hsp_generation_number(c->generation));
    return true;
}

bool hsp_ci_is_twin(const struct hsp_cluster *c, uint64_t generation)
{
    return hsp_generation_number(generation) == hsp_generation_number(c->generation) &&
           generation != c->generation;
}

const char *hsp_ci_cluster_text(struct hsp_cluster *c, struct hsp_digest id)
{
    char hex[HSP_DIGEST_HEX];
    if (hsp_cluster_none(id)) {
        return "a program that knew of no clusters";
    }
    hsp_digest_hex(id, hex);
    return hsp_ci_printf(c, "cluster %.*s", SHORT_ID, hex);
}

bool hsp_ci_has_adopted(const struct hsp_cluster *c, struct hsp_digest id)
{
    bool has = false;
    for (uint32_t i = 0; i < c->n_adopted && !has; i++) {
        has = hsp_digest_equal(c->adopted[i], id);
    }
    return has;
}

void hsp_ci_take_over(struct hsp_cluster *c, struct hsp_whose whose)
{
    if (!hsp_digest_equal(whose.cluster, c->id) && !hsp_ci_has_adopted(c, whose.cluster)) {
        c->adopted[c->n_adopted++] = whose.cluster;
    }
    hsp_ci_raise(c, whose.generation);
}

/* ---- jobs that are over ---- */

bool hsp_ci_job_is_over(const struct hsp_cluster *c, uint32_t id)
{
    bool is = false;
    for (uint32_t i = 0; i < c->n_ended && !is; i++) {
        is = id >= c->ended[i].from && id < c->ended[i].to;
    }
    return is;
}

bool hsp_ci_adopted_is_over(const struct hsp_cluster *c, struct hsp_digest cluster, uint32_t id)
{
    bool is = false;
    for (uint32_t i = 0; i < c->n_adopted_ended && !is; i++) {
        is =
            c->adopted_ended[i].job == id && hsp_digest_equal(c->adopted_ended[i].cluster, cluster);
    }
    return is;
}

void hsp_ci_adopted_over(struct hsp_cluster *c, struct hsp_digest cluster, uint32_t id)
{
    if (hsp_ci_adopted_is_over(c, cluster, id)) {
        return;
    }
    if (c->n_adopted_ended == HSP_ADOPTED_OVER) {
        c->n_adopted_ended--;
        memmove(c->adopted_ended, c->adopted_ended + 1,
                c->n_adopted_ended * sizeof(c->adopted_ended[0]));
    }
    c->adopted_ended[c->n_adopted_ended++] = (struct hsp_adopted_job){cluster, id};
    hsp_ci_store_adopted_ended(c);
}

void hsp_ci_job_over(struct hsp_cluster *c, uint32_t id)
{
    uint32_t at = 0;
    while (at < c->n_ended && c->ended[at].to < id) {
        at++;
    }
    struct hsp_range *r = &c->ended[at];
    bool joins = at < c->n_ended && id <= r->to && (uint64_t)id + 1 >= r->from;
    if (joins) {
        r->from = id < r->from ? id : r->from;
        r->to = id >= r->to ? (uint64_t)id + 1 : r->to;
        if (at + 1 < c->n_ended && r->to >= r[1].from) {
            r->to = r[1].to;
            c->n_ended--;
            memmove(r + 1, r + 2, (c->n_ended - at - 1) * sizeof(*r));
        }
    } else {
        if (c->n_ended == MAX_ENDED) {
            c->n_ended--;
            memmove(c->ended, c->ended + 1, c->n_ended * sizeof(*r));
            at -= at > 0;
        }
        if (!hsp_grow(&c->ended, &c->cap_ended, (size_t)c->n_ended + 1, sizeof(*c->ended),
                      MAX_ENDED)) {
            c->failed = true;
            return;
        }
        memmove(&c->ended[at + 1], &c->ended[at], (c->n_ended - at) * sizeof(*r));
        c->ended[at] = (struct hsp_range){id, (uint64_t)id + 1};
        c->n_ended++;
    }
    hsp_ci_store_ended(c);
}

/* ---- whose state it is ---- */

enum hsp_standing hsp_ci_standing(const struct hsp_cluster *c, const struct hsp_m_kept *k)
{
    const struct hsp_job *j = hsp_ci_job(c, k->job);
    bool ours = hsp_digest_equal(k->cluster, c->id);
    bool over = j == NULL && hsp_ci_job_is_over(c, k->job);
    if (!ours && hsp_ci_has_adopted(c, k->cluster)) {
        bool it = j != NULL && hsp_digest_equal(k->cluster, j->from);
        bool ended = over && hsp_ci_adopted_is_over(c, k->cluster, k->job);
        if (it ? hsp_ci_not_adopted(j) : j == NULL && !over) {
            return HSP_STANDS_NOT_ADOPTED;
        }
        ours = it || ended; /* else the number is another job's here */
    }
    if (!ours && !(hsp_cluster_none(k->cluster) && (j != NULL || over))) {
        return HSP_STANDS_FOREIGN;
    }
    if (j == NULL) {
        return over ? HSP_STANDS_OVER : HSP_STANDS_UNKNOWN;
    }
    if (ours && hsp_name_valid(k->name) && strcmp(k->name, j->name) != 0) {
        return HSP_STANDS_OTHER;
    }
    if (hsp_ci_epoch_unknown(j, k->epoch) || k->plan >= j->next_plan ||
        (ours && hsp_generation_ahead(k->generation, c->generation))) {
        return HSP_STANDS_NEWER;
    }
    return hsp_ci_at_rest(j) && !hsp_ci_keeps_state(j) ? HSP_STANDS_OVER : HSP_STANDS_KNOWN;
}

bool hsp_ci_can_be(const struct hsp_cluster *c, uint64_t generation, uint64_t number)
{
    uint64_t g = hsp_generation_ahead(generation, c->generation) ? generation : c->generation;
    uint64_t end = hsp_generation_first(hsp_generation_next(g, 0));
    uint32_t further = hsp_generation_number(g) - hsp_generation_number(c->generation);
    return number < end && further <= HSP_NEXT_GENERATIONS;
}

/* Epoch @epoch is of one of @n generations beyond ours, of ours or of one before. */
static bool is_within(const struct hsp_cluster *c, uint64_t epoch, uint32_t n)
{
    return epoch / HSP_GENERATION_NUMBERS <= (uint64_t)hsp_generation_number(c->generation) + n;
}

bool hsp_ci_epoch_can_be(const struct hsp_cluster *c, uint64_t epoch)
{
    return is_within(c, epoch, HSP_NEXT_GENERATIONS);
}

bool hsp_ci_can_be_written(const struct hsp_cluster *c, uint64_t epoch)
{
    return is_within(c, epoch, WRITTEN_GENERATIONS);
}

bool hsp_ci_testifies(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m, const struct hsp_m_kept *k)
{
    const struct hsp_job *j = hsp_ci_job(c, k->job);
    bool begun = j != NULL && j->n_plans > 0 && j->state != HSP_JOB_BEHIND;
    return n != NULL && n->unheard && hsp_ci_epoch_can_be(c, k->epoch) &&
           hsp_ci_can_be(c, k->generation, k->plan) && m->n_devices > 0 &&
           (!begun || hsp_ci_is_member(c, j, n));
}

/* ---- the jobs that a HELLO names ---- */

/* The entry of @job; a new entry if there is none, the last entry if the list is full. */
static struct hsp_m_kept *kept_of(struct hsp_m_kept *list, uint32_t *n, uint32_t job)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (list[i].job == job) {
            return &list[i];
        }
    }
    *n += *n <= HSP_MSG_KEPT;
    list[*n - 1] = (struct hsp_m_kept){.job = job, .name = ""};
    return &list[*n - 1];
}

struct hsp_m_kept *hsp_ci_kept(struct hsp_cluster *c, const struct hsp_m_hello *m, uint32_t *ret_n)
{
    struct hsp_m_kept *list = hsp_ci_alloc(c, HSP_MSG_KEPT + 1, sizeof(*list));
    *ret_n = 0;
    if (list == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < m->n_kept; i++) {
        *kept_of(list, ret_n, m->kept[i].job) = m->kept[i];
    }
    for (uint32_t i = 0; i < m->n_runs; i++) {
        const struct hsp_m_run *r = &m->runs[i];
        uint32_t before = *ret_n;
        struct hsp_m_kept *k = kept_of(list, ret_n, r->job);
        k->cluster = *ret_n > before ? m->cluster : k->cluster;
        k->generation = *ret_n > before ? m->generation : k->generation;
        k->epoch = r->running > k->epoch ? r->running : k->epoch;
        k->epoch = r->prepared > k->epoch ? r->prepared : k->epoch;
    }
    for (uint32_t i = 0; i < m->n_holdings; i++) {
        struct hsp_m_kept *k = kept_of(list, ret_n, m->holdings[i].job);
        k->plan = m->holdings[i].plan > k->plan ? m->holdings[i].plan : k->plan;
    }
    return list;
}

uint64_t hsp_ci_given_in(const struct hsp_cluster *c, const struct hsp_m_kept *k)
{
    uint64_t in = (k->epoch > k->plan ? k->epoch : k->plan) / HSP_GENERATION_NUMBERS;
    uint64_t told = after(k->generation, c->generation) ? hsp_generation_number(k->generation) : 0;
    return told > in ? told : in;
}

const char *hsp_ci_newer_store(struct hsp_cluster *c, uint64_t given)
{
    const char *path = c->cfg.replaced, *name = path != NULL ? strrchr(path, '/') : NULL;
    if (path == NULL || c->cfg.replaced_generation < given) {
        return "";
    }
    return name != NULL && strlen(path) > PATH_SHOWN
               ? hsp_ci_printf(c,
                               " (replaced last: end hspmdd, then hspmdd -c CONFIG --restore with "
                               "%s of state_dir)",
                               name + 1)
               : hsp_ci_printf(c,
                               " (replaced last: end hspmdd, then hspmdd -c CONFIG --restore "
                               "%s)",
                               path);
}
