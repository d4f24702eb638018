/* Makes the events of an epoch. Each is a function that tells whether the event can happen, and
 * makes it happen where @now. */
#include <string.h>

#include "tests/sim/due_model.h"

const struct due_kind due_kinds[] = {
    {"two replicas", 2, 0, {15, 15}, {-1, -1}, 3, true},
    {"three replicas", 3, 0, {15, 15, 15}, {-1, -1, -1}, 7, true},
    {"three replicas of which two seal", 3, 0, {15, 15, 15}, {-1, -1, -1}, 3, true},
    {"shards with copies", 3, 0, {3, 4, 8}, {1, 2, 0}, 7, false},
    {"two stages of two replicas", 4, 0, {3, 3, 12, 12}, {-1, -1, -1, -1}, 15, true},
    {"two stages and a replica holder", 2, 1, {3, 12}, {2, 2}, 3, false},
    {"two replicas and a replica holder", 2, 1, {15, 15}, {2, -1}, 3, true},
    {"two stages of two replicas, with copies", 4, 0, {3, 3, 12, 12}, {2, -1, 0, -1}, 15, true},
};
const unsigned due_n_kinds = sizeof due_kinds / sizeof due_kinds[0];

const struct due_kind *due_kind(struct due_world *w)
{
    return w->only != NULL ? w->only : &due_kinds[due_draw(w, due_n_kinds)];
}

/* Where an event happens. */
struct place {
    struct due_world *w;
    struct due_epoch *e;
    unsigned r, q; /* a rank, and another one */
    struct due_member *m;
    struct due_store *own;
};

static bool is_forced(const struct due_world *w, unsigned version)
{
    return version == DUE_STEPS || (w->calendar > 0 && version % w->calendar == 0);
}

static bool pending(const struct due_member *m)
{
    return m->due > m->stable;
}

void due_know_stable(struct due_world *w, struct due_member *m, uint8_t v)
{
    m->stable = v > m->stable ? v : m->stable;
    if (m->stable > w->committed) {
        w->committed = m->stable;
    }
}

/* ---- votes ---- */

/* Where the version behind this vote must be due, the record waits until it can be. */
static bool send_record(struct place *p, bool now)
{
    struct due_member *m = p->m;
    if (m->leaves || !m->weights || m->at != DUE_COMPUTES || m->to_give != 0 ||
        m->live >= DUE_STEPS ||
        (is_forced(p->w, m->live + 1u) && m->confirmed < m->due &&
         !due_breaks(p->w, DUE_WHILE_PENDING))) {
        return false;
    }
    if (now) {
        m->mine = (struct due_record){.step = m->live,
                                      .confirmed = m->confirmed,
                                      .wish = p->w->every == 1 || due_draw(p->w, p->w->every) == 0,
                                      .armed = m->armed};
        m->at = DUE_SENT;
        m->to_give = (uint8_t)(((1u << p->e->kind->n) - 1) & ~(1u << p->r));
    }
    return true;
}

static bool give_record(struct place *p, bool now)
{
    struct due_member *to = &p->e->m[p->q];
    if ((p->m->to_give >> p->q & 1) == 0 || !p->w->up[p->q] || !to->begun || to->at == DUE_PASSED ||
        to->live != p->m->mine.step) {
        return false;
    }
    if (now) {
        to->got[p->r] = p->m->mine;
        to->has |= (uint8_t)(1u << p->r);
        p->m->to_give &= (uint8_t) ~(1u << p->q);
    }
    return true;
}

static void note_due(struct due_member *m, uint8_t version)
{
    m->due = version;
    m->opened = m->out = m->copying = m->copied = false;
}

static bool pass_vote(struct place *p, bool now)
{
    struct due_world *w = p->w;
    struct due_member *m = p->m;
    unsigned n = p->e->kind->n, all = ((1u << n) - 1) & ~(1u << p->r);
    if (m->at != DUE_SENT || (m->has & all) != all) {
        return false;
    }
    if (!now) {
        return true;
    }
    m->got[p->r] = m->mine;
    uint8_t least = UINT8_MAX;
    bool armed = true;
    for (unsigned i = 0; i < n; i++) {
        least = m->got[i].confirmed < least ? m->got[i].confirmed : least;
        armed = armed && m->got[i].armed;
    }
    due_know_stable(w, m, due_breaks(w, DUE_OWN_STABLE) ? m->mine.confirmed : least);
    bool own = due_breaks(w, DUE_OWN_CLOCK) && due_draw(w, 2) == 0;
    bool wish = due_breaks(w, DUE_OWN_CLOCK) ? own : m->got[0].wish || is_forced(w, m->live + 1u);
    bool may = !pending(m) || due_breaks(w, DUE_WHILE_PENDING);
    m->leaves = armed && (!pending(m) || due_breaks(w, DUE_ARMED));
    if ((may && wish) || m->leaves) {
        note_due(m, (uint8_t)(m->live + 1));
    } else if (is_forced(w, m->live + 1u)) {
        due_stand(w, "must be due and cannot be", m->live + 1u);
    }
    m->at = DUE_PASSED;
    m->has = 0;
    return true;
}

static bool update(struct place *p, bool now)
{
    struct due_world *w = p->w;
    struct due_member *m = p->m;
    bool beside = !m->whole && due_breaks(w, DUE_BESIDE);
    bool on_its_way = m->due == m->live && !m->out && !beside;
    if (m->at != DUE_PASSED || (on_its_way && !due_breaks(w, DUE_UPDATE_EARLY)) ||
        (!m->whole && !beside)) {
        return false;
    }
    if (now) {
        m->torn |= !m->whole;
        m->live++;
        m->live_epoch = p->e->number;
        m->at = DUE_COMPUTES;
        if (due_breaks(w, DUE_THIN_COPIES) && m->due != m->live) {
            due_seal(&p->own->slot[due_older(p->own)], m);
        }
    }
    return true;
}

/* ---- a due version on its way ---- */

static bool open_slot(struct place *p, bool now)
{
    struct due_member *m = p->m;
    bool early = due_breaks(p->w, DUE_UPDATE_EARLY) && m->live > m->due;
    if (!m->whole || m->opened || m->due == DUE_NONE || (m->due != m->live && !early)) {
        return false;
    }
    if (now) {
        m->opened = true;
        if ((p->e->kind->sealers >> p->r & 1) == 0) {
            m->out = true;
            return true;
        }
        m->slot = (uint8_t)due_slot_for(p->w, p->own, m->due, m->stable);
        p->own->slot[m->slot] = (struct due_slot){0};
    }
    return true;
}

static bool seal_slot(struct place *p, bool now)
{
    struct due_member *m = p->m;
    if (!m->opened || m->out) {
        return false;
    }
    if (now) {
        m->out = true;
        due_seal(&p->own->slot[m->slot], m);
        p->own->slot[m->slot].version = m->due;
        p->own->slot[m->slot].torn |= m->live != m->due; /* something else lay there by then */
    }
    return true;
}

static struct due_store *copies_at(const struct place *p, unsigned *ret_holder)
{
    int h = p->e->kind->holder[p->r];
    *ret_holder = (unsigned)h;
    return h >= 0 ? &p->w->store[h][p->e->layout][p->r] : NULL;
}

static bool begin_copy(struct place *p, bool now)
{
    struct due_member *m = p->m;
    unsigned h;
    struct due_store *s = copies_at(p, &h);
    if (s == NULL || !m->out || m->copying || m->copied || !p->w->up[h] || !p->e->m[h].begun) {
        return false;
    }
    if (now && due_has(s, m->due)) {
        m->copied = true; /* after a loss: the slot stays whole */
    } else if (now) {
        bool first =
            m->due == p->e->first && p->e->keep != DUE_NONE && !due_breaks(p->w, DUE_FETCH_OLDER);
        m->copying = true;
        m->copy_slot = (uint8_t)due_slot_for(p->w, s, m->due, first ? p->e->keep : DUE_NONE);
        if (due_breaks(p->w, DUE_COPY_NEWER)) {
            m->copy_slot = (uint8_t)(1 - due_older(s));
        }
        s->slot[m->copy_slot] = (struct due_slot){0};
    }
    return true;
}

static bool end_copy(struct place *p, bool now)
{
    struct due_member *m = p->m;
    unsigned h;
    struct due_store *s = copies_at(p, &h);
    if (s == NULL || !m->copying || !p->w->up[h]) {
        return false;
    }
    if (now) {
        struct due_slot from;
        (void)due_whole(p->w, p->e->layout, m->due, p->e->kind->cells[p->r], &from);
        m->copying = false;
        m->copied = true;
        s->slot[m->copy_slot] = from;
    }
    return true;
}

static bool confirm(struct place *p, bool now)
{
    struct due_member *m = p->m;
    unsigned h;
    bool copied =
        m->copied || copies_at(p, &h) == NULL || (m->copying && due_breaks(p->w, DUE_COPY_EARLY));
    if (!m->out || !copied || m->confirmed == m->due) {
        return false;
    }
    if (now) {
        m->confirmed = m->due;
    }
    return true;
}

/* The last version of the job has no vote: all have it confirmed. */
static bool finish(struct place *p, bool now)
{
    struct due_member *m = p->m;
    for (unsigned q = 0; q < p->e->kind->n; q++) {
        if (p->e->m[q].confirmed != DUE_STEPS) {
            return false;
        }
    }
    if (m->stable == DUE_STEPS) {
        return false;
    }
    if (now) {
        due_know_stable(p->w, m, DUE_STEPS);
    }
    return true;
}

/* ---- the begin of an epoch ---- */

static bool leave(struct place *p, bool now)
{
    struct due_world *w = p->w;
    struct due_epoch *next = &w->epoch[p->e == w->epoch];
    struct due_member *m = p->m;
    if (!m->leaves || m->left || m->at == DUE_PASSED || !m->out || !next->used) {
        return false;
    }
    if (now) {
        m->left = true;
        w->switches += w->cur == (unsigned)(p->e - w->epoch);
        w->cur = (unsigned)(next - w->epoch);
        next->first = m->live;
        next->m[p->r].begun = true;
    }
    return true;
}

/* A joiner or replica holder hears of the version from members that have begun. */
static bool begin(struct place *p, bool now)
{
    const struct due_epoch *old = &p->w->epoch[p->e == p->w->epoch];
    bool votes = old->used && p->r < old->kind->n && old->m[p->r].begun;
    if (p->m->begun || p->e->first == DUE_NONE || votes) {
        return false;
    }
    if (now) {
        p->m->begun = true;
    }
    return true;
}

static uint8_t wanted(const struct place *p)
{
    return p->r < p->e->kind->n ? p->e->kind->cells[p->r] : 0;
}

static void all_here(struct place *p)
{
    p->m->whole = p->m->opened = p->m->out = true;
}

static bool fetch_weights(struct place *p, bool now)
{
    struct due_member *m = p->m;
    struct due_slot from;
    if (m->weights || m->fetching || wanted(p) == 0 ||
        !due_whole(p->w, p->e->from, p->e->first, wanted(p), &from)) {
        return false;
    }
    if (now) {
        m->live = p->e->first;
        m->live_epoch = from.epoch;
        m->torn = from.torn;
        m->weights = true;
        note_due(m, p->e->first);
        if (due_has(p->own, p->e->first)) {
            all_here(p);
            return true;
        }
        uint8_t keep = due_breaks(p->w, DUE_FETCH_OLDER) ? DUE_NONE : p->e->keep;
        m->fetching = true;
        m->slot = (uint8_t)due_slot_for(p->w, p->own, p->e->first, keep);
        p->own->slot[m->slot] = (struct due_slot){0};
    }
    return true;
}

static bool fetch_rest(struct place *p, bool now)
{
    struct due_member *m = p->m;
    struct due_slot from;
    if (!m->fetching || !due_whole(p->w, p->e->from, p->e->first, wanted(p), &from)) {
        return false;
    }
    if (now) {
        m->fetching = false;
        from.torn |= m->live != p->e->first;
        p->own->slot[m->slot] = from;
        all_here(p);
    }
    return true;
}

/* ---- switches ---- */

unsigned due_free_layout(const struct due_world *w)
{
    unsigned l = 0;
    while (l < DUE_LAYOUTS && w->kind[l] != NULL) {
        l++;
    }
    return l;
}

static bool is_running(const struct place *p)
{
    return p->e == &p->w->epoch[p->w->cur];
}

static bool prepare(struct place *p, bool now)
{
    struct due_world *w = p->w;
    struct due_epoch *next = &w->epoch[p->e == w->epoch];
    unsigned layout = due_free_layout(w);
    if (p->r != 0 || next->used || !is_running(p) || w->ending || p->m->stable < p->e->first ||
        layout == DUE_LAYOUTS || p->m->live + 3 > DUE_STEPS) {
        return false;
    }
    if (now && due_draw(w, 10) == 0) {
        w->kind[layout] = due_kind(w);
        *next = (struct due_epoch){.used = true,
                                   .number = ++w->n_epochs,
                                   .kind = w->kind[layout],
                                   .layout = (uint8_t)layout,
                                   .from = p->e->layout};
    }
    return true;
}

static bool arm(struct place *p, bool now)
{
    const struct due_epoch *next = &p->w->epoch[p->e == p->w->epoch];
    if (p->m->armed || !next->used || next->first != DUE_NONE || p->w->ending) {
        return false;
    }
    if (now) {
        p->m->armed = true;
    }
    return true;
}

static bool release(struct place *p, bool now)
{
    struct due_world *w = p->w;
    bool more = false;
    for (unsigned l = 0; l < DUE_LAYOUTS; l++) {
        more |= l != p->e->layout && w->kind[l] != NULL;
    }
    bool early = due_breaks(w, DUE_RELEASE) && (p->m->live > p->e->first || p->m->at == DUE_PASSED);
    const struct due_epoch *other = &w->epoch[p->e == w->epoch];
    bool prepared = other->used && other->first == DUE_NONE;
    if (p->r != 0 || !is_running(p) || !more || prepared || !p->m->weights ||
        (p->m->stable < p->e->first && !early)) {
        return false;
    }
    if (now) {
        for (unsigned l = 0; l < DUE_LAYOUTS; l++) {
            if (l != p->e->layout) {
                w->kind[l] = NULL;
                due_void_above(w, l, DUE_NONE);
            }
        }
        w->epoch[p->e == w->epoch].used = false;
    }
    return true;
}

/* ---- all ---- */

typedef bool (*due_event)(struct place *p, bool now);

/* @of_all: also of processes that have not begun; else of ranks that have. */
static const struct {
    due_event f;
    bool of_all, of_two;
} events[] = {
    {send_record, false, false},   {give_record, false, true}, {pass_vote, false, false},
    {update, false, false},        {open_slot, false, false},  {seal_slot, false, false},
    {begin_copy, false, false},    {end_copy, false, false},   {confirm, false, false},
    {finish, false, false},        {leave, false, false},      {begin, true, false},
    {fetch_weights, false, false}, {fetch_rest, false, false}, {prepare, false, false},
    {arm, false, false},           {release, false, false},
};
#define N_EVENTS (sizeof events / sizeof events[0])
const unsigned due_n_events = N_EVENTS;

struct choice {
    struct place p;
    due_event f;
};

static void gather(struct place *p, struct choice *all, unsigned *n)
{
    unsigned ranks = p->e->kind->n;
    for (unsigned i = 0; i < N_EVENTS; i++) {
        bool rank = p->r < ranks && p->m->begun;
        for (p->q = 0; (rank || events[i].of_all) && p->q < (events[i].of_two ? ranks : 1);
             p->q++) {
            if (events[i].f(p, false)) {
                all[(*n)++] = (struct choice){*p, events[i].f};
            }
        }
    }
}

bool due_happen(struct due_world *w)
{
    struct choice all[2 * DUE_NODES * (N_EVENTS + DUE_NODES)];
    unsigned n = 0;
    for (unsigned k = 0; k < 2; k++) {
        struct due_epoch *e = &w->epoch[k];
        for (unsigned r = 0; e->used && r < (unsigned)(e->kind->n + e->kind->n_replica_holders);
             r++) {
            struct place p = {w, e, r, 0, &e->m[r], &w->store[r][e->layout][r]};
            if (w->up[r]) {
                gather(&p, all, &n);
            }
        }
    }
    if (n == 0) {
        return false;
    }
    struct choice *c = &all[due_draw(w, n)];
    if (c->f == events[w->slow].f && due_draw(w, 8) != 0) { /* the event that is slow in this run */
        c = &all[due_draw(w, n)];
        c = c->f == events[w->slow].f ? &all[due_draw(w, n)] : c;
    }
    (void)c->f(&c->p, true);
    return true;
}

bool due_finished(const struct due_world *w)
{
    return w->committed == DUE_STEPS;
}
