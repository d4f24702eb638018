#include "daemon/spmd/sharding/home_slots.h"

#include <stdlib.h>

#include "daemon/graph/graph.h" /* HSP_NONE */
#include "proto/layout/box.h"

/* Boxes that overlap, directly or over others, have one root. */
static uint32_t root_of(const uint32_t *up, uint32_t i)
{
    while (up[i] != i) {
        i = up[i];
    }
    return i;
}

static void join_copies(const struct hsp_cover *home, uint32_t *up)
{
    for (uint32_t i = 0; i < home->n; i++) {
        up[i] = i;
        for (uint32_t k = 0; k < i; k++) {
            struct hsp_box both;
            uint32_t a = root_of(up, i), b = root_of(up, k);
            if (a != b && hsp_box_cut(&home->items[i].box, &home->items[k].box, &both)) {
                up[a > b ? a : b] = a > b ? b : a;
            }
        }
    }
}

/* Slots that ranks with a box of root @root have given to others: bits of the result. Also whether
 * some rank has two boxes of this root. */
static uint64_t taken_slots(const struct hsp_cover *home, const uint32_t *up, const uint32_t *slot,
                            uint32_t root, bool *twice)
{
    uint64_t taken = 0;
    for (uint32_t i = root; i < home->n; i++) {
        if (root_of(up, i) != root) {
            continue;
        }
        uint32_t k = i; /* items are sorted by rank */
        while (k > 0 && home->items[k - 1].rank == home->items[i].rank) {
            k--;
        }
        for (; k < home->n && home->items[k].rank == home->items[i].rank; k++) {
            uint32_t given = slot[root_of(up, k)];
            *twice = *twice || (k != i && root_of(up, k) == root);
            taken |= given != HSP_NONE ? (uint64_t)1 << given : 0;
        }
    }
    return taken;
}

static enum hsp_status give_slots(const struct hsp_cover *home, const char *name,
                                  const uint32_t *up, struct hsp_home_slots *ret,
                                  struct hsp_err *err)
{
    for (uint32_t i = 0; i < home->n; i++) {
        ret->of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; i < home->n; i++) {
        uint32_t root = root_of(up, i), slot = 0;
        if (root != i) { /* a root is the first of its boxes */
            ret->of[i] = ret->of[root];
            continue;
        }
        bool twice = false;
        uint64_t taken = taken_slots(home, up, ret->of, root, &twice);
        if (twice) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "home of %s: copies are cut so that they join two boxes of one rank",
                               name);
        }
        while (slot < HSP_MAX_HOME_SLOTS && (taken >> slot & 1) != 0) {
            slot++;
        }
        if (slot == HSP_MAX_HOME_SLOTS) {
            return hsp_err_set(err, HSP_EINVAL, 0, "home of %s: rank %u has more than %d boxes",
                               name, home->items[i].rank, HSP_MAX_HOME_SLOTS);
        }
        ret->of[i] = slot;
        ret->n = slot >= ret->n ? slot + 1 : ret->n;
    }
    return HSP_OK;
}

enum hsp_status hsp_home_slots_assign(const struct hsp_cover *home, const char *name,
                                      struct hsp_arena *arena, struct hsp_home_slots *ret,
                                      struct hsp_err *err)
{
    struct hsp_home_slots s = {.n = 1, .of = hsp_arena_array(arena, home->n, sizeof *s.of)};
    bool several = false;
    if (s.of == NULL) {
        return hsp_err_nomem(err, "home of a parameter");
    }
    for (uint32_t i = 1; i < home->n; i++) {
        several = several || home->items[i].rank == home->items[i - 1].rank;
    }
    if (several) {
        uint32_t *up = malloc(home->n * sizeof *up);
        if (up == NULL) {
            return hsp_err_nomem(err, "home of a parameter");
        }
        join_copies(home, up);
        enum hsp_status rc = give_slots(home, name, up, &s, err);
        free(up);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    *ret = s;
    return HSP_OK;
}
