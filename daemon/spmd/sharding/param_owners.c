#include "daemon/spmd/sharding/param_owners.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph.h" /* HSP_NONE */
#include "proto/base/vec.h"
#include "proto/layout/cover_cells.h"

#define MAX_BOXES ((size_t)1 << 24)

struct owned {
    const struct hsp_cover *home;
    uint32_t rank;       /* HSP_NONE: all */
    struct hsp_box *box; /* owned; [n], in the order of the sweep */
    uint32_t *owner;     /* owned; of each box */
    size_t n, cap_box, cap_owner;
};

static enum hsp_status owned_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct owned *o = ctx;
    uint32_t owner = HSP_NONE;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t rank = o->home->items[r->src[i]].rank;
        owner = rank < owner ? rank : owner;
    }
    if (owner == HSP_NONE || (o->rank != HSP_NONE && owner != o->rank)) {
        return HSP_OK;
    }
    if (!hsp_grow(&o->box, &o->cap_box, o->n + 1, sizeof *o->box, MAX_BOXES) ||
        !hsp_grow(&o->owner, &o->cap_owner, o->n + 1, sizeof *o->owner, MAX_BOXES)) {
        return hsp_grow_error(o->n + 1, MAX_BOXES, "boxes of owners", err);
    }
    o->owner[o->n] = owner;
    o->box[o->n++] = r->box;
    return HSP_OK;
}

/* Joins @b to @a when together they are one box. */
static bool join(struct hsp_box *a, const struct hsp_box *b)
{
    uint8_t differ = 0, dim = 0;
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) {
            differ++;
            dim = d;
        }
    }
    if (differ == 1 && a->hi[dim] == b->lo[dim]) {
        a->hi[dim] = b->hi[dim];
        return true;
    }
    if (differ == 1 && b->hi[dim] == a->lo[dim]) {
        a->lo[dim] = b->lo[dim];
        return true;
    }
    return false;
}

/* Joins boxes as long as any two can be. Returns how many are left. */
static uint32_t join_all(struct hsp_box *box, uint32_t n)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = i + 1; k < n; k++) {
                if (join(&box[i], &box[k])) {
                    memmove(&box[k], &box[k + 1], (n - k - 1) * sizeof *box);
                    n--;
                    k--;
                    again = true;
                }
            }
        }
    }
    return n;
}

static enum hsp_status sweep_owned(struct owned *o, struct hsp_arena *arena, struct hsp_box **ret,
                                   struct hsp_err *err)
{
    enum hsp_status rc = hsp_regions(o->home, NULL, owned_cell, o, err);
    *ret = rc == HSP_OK ? hsp_arena_array(arena, o->n, sizeof **ret) : NULL;
    return rc == HSP_OK && *ret == NULL ? hsp_err_nomem(err, "boxes of an owner") : rc;
}

static void owned_fini(struct owned *o)
{
    free(o->box);
    free(o->owner);
}

enum hsp_status hsp_home_owned(const struct hsp_cover *home, uint32_t rank, struct hsp_arena *arena,
                               struct hsp_box **ret, uint32_t *ret_n, struct hsp_err *err)
{
    struct owned o = {.home = home, .rank = rank};
    struct hsp_box *box;
    enum hsp_status rc = sweep_owned(&o, arena, &box, err);
    if (rc == HSP_OK) {
        if (o.n > 0) {
            memcpy(box, o.box, o.n * sizeof *box);
        }
        *ret = box;
        *ret_n = join_all(box, (uint32_t)o.n);
    }
    owned_fini(&o);
    return rc;
}

enum hsp_status hsp_home_owners(const struct hsp_cover *home, uint32_t n_ranks,
                                struct hsp_arena *arena, struct hsp_owned *ret, struct hsp_err *err)
{
    struct owned o = {.home = home, .rank = HSP_NONE};
    struct hsp_box *box;
    enum hsp_status rc = sweep_owned(&o, arena, &box, err);
    for (uint32_t r = 0; r < n_ranks; r++) {
        ret[r] = (struct hsp_owned){NULL, 0};
    }
    for (size_t i = 0; rc == HSP_OK && i < o.n; i++) {
        ret[o.owner[i]].n++;
    }
    for (uint32_t r = 0; rc == HSP_OK && r < n_ranks; r++) {
        ret[r].box = box;
        box += ret[r].n;
        ret[r].n = 0;
    }
    for (size_t i = 0; rc == HSP_OK && i < o.n; i++) {
        struct hsp_owned *to = &ret[o.owner[i]];
        to->box[to->n++] = o.box[i];
    }
    for (uint32_t r = 0; rc == HSP_OK && r < n_ranks; r++) {
        ret[r].n = join_all(ret[r].box, ret[r].n);
    }
    owned_fini(&o);
    return rc;
}
