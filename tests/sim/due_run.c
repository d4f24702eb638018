#include <string.h>

#include "tests/sim/due_model.h"

#define EVENTS 2000 /* of a run; one without losses takes some 300 */
#define LOSSES 5

static const char *const texts[] = {
#define X(name, text) text,
    DUE_RULES(X)
#undef X
        "all are kept"};

const char *due_rule_text(enum due_rule r)
{
    return texts[r];
}

/* One in how many events is a death. In aimed runs deaths come in fetches and in votes that they
 * may split, else more often while an epoch has no stable version. */
static unsigned deaths(const struct due_world *w, unsigned often)
{
    const struct due_epoch *e = &w->epoch[w->cur];
    bool fetches = false, splits = false;
    for (unsigned r = 0; e->used && r < e->kind->n; r++) {
        uint8_t others = (uint8_t)(((1u << e->kind->n) - 1) & ~(1u << r));
        fetches |= e->m[r].fetching;
        splits |=
            e->m[r].to_give != 0 && e->m[r].to_give != others && e->m[r].stable == e->m[r].due;
    }
    if (w->aimed) {
        return fetches ? 3 : splits ? often : 0;
    }
    return e->used && e->m[0].stable < e->first ? 1 + often / 4 : often;
}

void due_run(struct due_world *w, uint64_t seed, enum due_rule broken)
{
    static const uint8_t every[] = {1, 1, 2, 4, 6};
    *w = (struct due_world){.chance = seed, .broken = broken};
    w->every = every[due_draw(w, sizeof every)];
    w->calendar = due_draw(w, 2) == 0 ? 0 : (uint8_t)(3 + due_draw(w, 3));
    w->slow = (uint8_t)due_draw(w, due_n_events);
    w->aimed = due_draw(w, 2) == 0;
    w->only = w->aimed ? &due_kinds[due_draw(w, due_n_kinds)] : NULL;
    due_begin(w, due_kind(w));
    unsigned often = 10 + due_draw(w, 60);
    for (unsigned i = 0; i < EVENTS && !due_finished(w) && w->why[0] == '\0'; i++) {
        const struct due_epoch *e = &w->epoch[w->cur];
        w->spare |= !w->ending && e->kind != NULL && e->m[0].stable >= e->first;
        unsigned one_in = deaths(w, often);
        if (w->losses < LOSSES && one_in > 0 && due_draw(w, one_in) == 0) {
            due_kill(w);
        }
        if (w->ending && w->ends_in-- == 0) {
            due_recover(w);
        } else if (!due_happen(w) && !w->ending) {
            due_stand(w, "is where nothing goes on", e->m[0].live);
        }
    }
    if (w->why[0] == '\0' && !due_finished(w)) {
        due_stand(w, "is all that there is after so many events", w->committed);
    }
}
