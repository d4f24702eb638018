/* Plays the death of a process or a node: the survivors seal, and a new epoch begins with the
 * greatest version that is whole. */
#include <string.h>

#include "tests/sim/due_model.h"

void due_begin(struct due_world *w, const struct due_kind *k)
{
    struct due_epoch *e = &w->epoch[0];
    memset(w->store, 0, sizeof w->store);
    memset(w->kind, 0, sizeof w->kind);
    memset(w->epoch, 0, sizeof w->epoch);
    w->cur = 0;
    w->spare = false;
    w->kind[0] = k;
    *e = (struct due_epoch){.used = true, .number = ++w->n_epochs, .kind = k, .first = 1};
    for (unsigned r = 0; r < DUE_NODES; r++) {
        struct due_member *m = &e->m[r];
        w->up[r] = true;
        m->begun = r < (unsigned)(k->n + k->n_replica_holders);
        if (r < k->n) {
            *m = (struct due_member){.begun = true,
                                     .weights = true,
                                     .whole = true,
                                     .live = 1,
                                     .live_epoch = e->number,
                                     .due = 1,
                                     .opened = true,
                                     .out = true};
            due_seal(&w->store[r][0][r].slot[0], m);
        }
    }
}

/* The records of the dead that no peer has yet are lost, or not. */
static void last_words(struct due_world *w, unsigned node)
{
    for (unsigned k = 0; k < 2; k++) {
        struct due_epoch *e = &w->epoch[k];
        struct due_member *m = &e->m[node];
        for (unsigned q = 0; e->used && q < e->kind->n; q++) {
            struct due_member *to = &e->m[q];
            if ((m->to_give >> q & 1) != 0 && w->up[q] && to->begun && to->at != DUE_PASSED &&
                to->live == m->mine.step && due_draw(w, 2) == 0) {
                to->got[node] = m->mine;
                to->has |= (uint8_t)(1u << node);
            }
        }
    }
}

/* A node goes only when a version has become stable since the last one went, and then all of its
 * state. */
void due_kill(struct due_world *w)
{
    const struct due_epoch *e = &w->epoch[w->cur];
    unsigned node = due_draw(w, (unsigned)(e->kind->n + e->kind->n_replica_holders));
    if (!w->up[node]) {
        return;
    }
    w->losses++;
    last_words(w, node);
    w->up[node] = false;
    if (w->spare && due_draw(w, 2) == 0) {
        w->spare = false;
        memset(w->store[node], 0, sizeof w->store[node]);
    }
    if (!w->ending) {
        w->ending = true;
        w->ends_in = due_draw(w, 8);
    }
}

/* Whether a survivor seals its live version. */
static bool seals(const struct due_world *w, const struct due_epoch *e, const struct due_member *m)
{
    uint8_t known = due_breaks(w, DUE_SEAL_LAGGING) ? m->confirmed : m->stable;
    bool pending = m->due > known && (m->due != m->live || due_breaks(w, DUE_SEAL_DUE));
    bool may = !pending || due_breaks(w, DUE_SEAL_PENDING);
    return e->kind->replicated && m->begun && m->whole && !m->left && may;
}

/* A rank that has passed a vote finishes the update; in the pieces of others it cannot, and its
 * state is torn. */
static void end_update(struct due_world *w, const struct due_epoch *e, struct due_member *m)
{
    bool waits = m->due == m->live && !m->out;
    if (m->at == DUE_PASSED && m->whole && !waits) {
        m->torn |= !e->kind->replicated || (due_breaks(w, DUE_SEAL_TORN) && due_draw(w, 2) == 0);
        m->live++;
        m->live_epoch = e->number;
        m->at = DUE_COMPUTES;
    }
}

static void seal_survivors(struct due_world *w)
{
    for (unsigned k = 0; k < 2; k++) {
        struct due_epoch *e = &w->epoch[k];
        for (unsigned r = 0; e->used && r < e->kind->n; r++) {
            struct due_member *m = &e->m[r];
            struct due_store *s = &w->store[r][e->layout][r];
            if (!w->up[r]) {
                continue;
            }
            end_update(w, e, m);
            if (seals(w, e, m) && !due_has(s, m->live)) {
                due_seal(&s->slot[due_slot_for(w, s, m->live, m->stable)], m);
                w->sealed_at_loss++;
            }
        }
    }
}

/* The greatest version below @below that is whole in @layout. */
static uint8_t greatest(const struct due_world *w, unsigned layout, unsigned below)
{
    uint8_t all = (1u << DUE_CELLS) - 1;
    while (below-- > 1) {
        if (due_whole(w, layout, (uint8_t)below, all, NULL)) {
            return (uint8_t)below;
        }
    }
    return DUE_NONE;
}

/* The version that all survivors of the running epoch have on the device, and that the next epoch
 * must begin with: there is no split vote, no switch and no earlier pending version, and each cell
 * has two homes. DUE_NONE: the next epoch may begin with another version. */
static uint8_t owed(struct due_world *w)
{
    const struct due_epoch *e = &w->epoch[w->cur];
    uint8_t v = DUE_NONE;
    bool excused = !e->kind->replicated || w->epoch[1 - w->cur].used;
    for (unsigned r = 0; r < e->kind->n; r++) {
        const struct due_member *m = &e->m[r];
        if (w->up[r]) {
            excused |= !m->whole || (m->due > m->stable && m->due != m->live);
            w->splits += v != DUE_NONE && v != m->live;
            excused |= v != DUE_NONE && v != m->live;
            v = m->live;
        }
    }
    return excused ? DUE_NONE : v;
}

static bool homes_live(const struct due_world *w)
{
    const struct due_epoch *e = &w->epoch[w->cur];
    uint8_t cells = 0;
    for (unsigned r = 0; r < e->kind->n; r++) {
        cells |= w->up[r] ? e->kind->cells[r] : 0;
    }
    return cells == (1u << DUE_CELLS) - 1;
}

static void go_on(struct due_world *w, uint8_t v, unsigned from)
{
    unsigned layout = due_free_layout(w);
    bool same = layout == DUE_LAYOUTS || due_draw(w, 3) > 0;
    layout = same ? from : layout;
    if (!same) {
        w->kind[layout] = due_kind(w);
    }
    if (!due_breaks(w, DUE_NO_VOID)) {
        for (unsigned l = 0; l < DUE_LAYOUTS; l++) {
            due_void_above(w, l, v);
        }
    }
    memset(w->epoch, 0, sizeof w->epoch);
    w->cur = 0;
    struct due_epoch *e = &w->epoch[0];
    *e = (struct due_epoch){.used = true,
                            .number = ++w->n_epochs,
                            .kind = w->kind[layout],
                            .layout = (uint8_t)layout,
                            .from = (uint8_t)from,
                            .first = v,
                            .keep = same ? greatest(w, layout, v) : DUE_NONE};
    for (unsigned r = 0; r < (unsigned)(e->kind->n + e->kind->n_replica_holders); r++) {
        e->m[r].begun = true;
        e->m[r].stable = e->keep;
    }
}

void due_recover(struct due_world *w)
{
    uint8_t v = DUE_NONE;
    unsigned from = 0;
    bool live = homes_live(w);
    seal_survivors(w);
    uint8_t want = live ? owed(w) : DUE_NONE;
    for (unsigned r = 0; r < DUE_NODES; r++) {
        w->up[r] = true;
    }
    w->ending = false;
    for (unsigned l = 0; l < DUE_LAYOUTS; l++) {
        uint8_t here = greatest(w, l, DUE_STEPS + 1);
        from = here > v ? l : from;
        v = here > v ? here : v;
    }
    struct due_slot got = {0};
    if (v != DUE_NONE) {
        (void)due_whole(w, from, v, (1u << DUE_CELLS) - 1, &got);
    }
    if (v < w->committed) {
        due_fail(w, "was committed and is lost", w->committed);
    } else if (got.torn) {
        due_fail(w, "is torn, or of two epochs", v);
    } else if (v < want) {
        due_fail(w, "is made again though all survivors had it", want);
    } else if (v == DUE_NONE) {
        due_begin(w, due_kind(w));
    } else {
        w->kept += want != DUE_NONE && v == want;
        go_on(w, v, from);
    }
}
