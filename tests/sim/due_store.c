#include <stdio.h>
#include <string.h>

#include "tests/sim/due_model.h"

bool due_breaks(const struct due_world *w, enum due_rule r)
{
    return w->broken == r;
}

/* splitmix64 */
unsigned due_draw(struct due_world *w, unsigned n)
{
    uint64_t z = w->chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}

void due_fail(struct due_world *w, const char *what, unsigned version)
{
    if (w->why[0] == '\0') {
        (void)snprintf(w->why, sizeof w->why, "version %u %s", version, what);
    }
}

void due_stand(struct due_world *w, const char *what, unsigned version)
{
    w->stands |= w->why[0] == '\0';
    due_fail(w, what, version);
}

unsigned due_older(const struct due_store *s)
{
    return s->slot[0].version <= s->slot[1].version ? 0 : 1;
}

bool due_has(const struct due_store *s, uint8_t v)
{
    return s->slot[0].version == v || s->slot[1].version == v;
}

unsigned due_slot_for(const struct due_world *w, const struct due_store *s, uint8_t v,
                      uint8_t protect)
{
    if (due_breaks(w, DUE_PARITY)) {
        return v % 2;
    }
    for (unsigned i = 0; i < 2 && protect != DUE_NONE; i++) {
        if (s->slot[i].version == protect) {
            return 1 - i;
        }
    }
    return due_older(s); /* an empty one is the oldest */
}

bool due_whole(const struct due_world *w, unsigned layout, uint8_t v, uint8_t cells,
               struct due_slot *ret_from)
{
    uint8_t found = 0;
    struct due_slot from = {.version = v};
    for (unsigned node = 0; node < DUE_NODES && w->kind[layout] != NULL; node++) {
        for (unsigned o = 0; o < w->kind[layout]->n && w->up[node]; o++) {
            uint8_t of_owner = w->kind[layout]->cells[o];
            for (unsigned i = 0; i < 2; i++) {
                const struct due_slot *s = &w->store[node][layout][o].slot[i];
                if (s->version == v && v != DUE_NONE && (of_owner & cells) != 0) {
                    from.torn |= s->torn || (from.epoch != 0 && from.epoch != s->epoch);
                    from.epoch = s->epoch;
                    found |= of_owner;
                }
            }
        }
    }
    if (ret_from != NULL) {
        *ret_from = from;
    }
    return (found & cells) == cells;
}

void due_seal(struct due_slot *s, const struct due_member *m)
{
    *s = (struct due_slot){m->live, m->live_epoch, m->torn};
}

void due_void_above(struct due_world *w, unsigned layout, uint8_t v)
{
    for (unsigned node = 0; node < DUE_NODES; node++) {
        for (unsigned o = 0; o < DUE_NODES; o++) {
            for (unsigned i = 0; i < 2; i++) {
                struct due_slot *s = &w->store[node][layout][o].slot[i];
                if (s->version > v) {
                    *s = (struct due_slot){0};
                }
            }
        }
    }
}
