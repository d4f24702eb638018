#include "tests/unit/proto/layout/unions.h"

uint32_t hsp_ds_devices(const struct hsp_ds *ds)
{
    uint64_t n = 1;
    for (uint8_t i = 0; i < ds->n && n <= HSP_MAX_RANKS; i++) {
        n *= ds->count[i];
    }
    return n <= HSP_MAX_RANKS ? (uint32_t)n : UINT32_MAX;
}

/* Returns the number of places from one coordinate of @entry to the next. */
static uint32_t stride(const struct hsp_ds *ds, uint8_t entry)
{
    uint32_t n = 1;
    for (uint8_t i = (uint8_t)(entry + 1); i < ds->n; i++) {
        n *= ds->count[i];
    }
    return n;
}

void hsp_ds_coords(const struct hsp_ds *ds, uint32_t p, uint32_t *ret)
{
    for (uint8_t i = 0; i < ds->n; i++) {
        ret[i] = p / stride(ds, i) % ds->count[i];
    }
}

void hsp_ds_group(const struct hsp_ds *ds, uint32_t p, uint8_t entry, uint32_t *ret)
{
    uint32_t step = stride(ds, entry), macro = step * ds->count[entry];
    for (uint32_t k = 0; k < ds->count[entry]; k++) {
        ret[k] = p - p % macro + p % step + k * step;
    }
}

static enum hsp_status check_ds(const struct hsp_ds *ds, uint32_t i, uint32_t devices,
                                struct hsp_err *err)
{
    for (uint8_t k = 0; k < ds->n; k++) {
        if (ds->count[k] == 0 || ds->dim[k] < HSP_DS_PARTIAL || ds->dim[k] >= HSP_MAX_RANK) {
            return hsp_err_set(err, HSP_EINVAL, 0, "group %u: dim %d has count %u", i, ds->dim[k],
                               ds->count[k]);
        }
        for (uint8_t j = 0; j < k; j++) {
            if (ds->dim[j] == ds->dim[k]) {
                return hsp_err_set(err, HSP_EINVAL, 0, "group %u: dim %d stands twice", i,
                                   ds->dim[k]);
            }
        }
    }
    return hsp_ds_devices(ds) == devices
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "group %u: states for %u devices, it has %u", i,
                             hsp_ds_devices(ds), devices);
}

static enum hsp_status check_union(const struct hsp_union *u, struct hsp_err *err)
{
    bool seen[HSP_MAX_RANKS] = {false};
    if (u->k == 0 || u->k > HSP_MAX_RANKS || (u->k == 1) != (u->hdim == HSP_DS_NONE)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "a union of %u groups with relation %d", u->k,
                           u->hdim);
    }
    if (u->hdim < HSP_DS_NONE || u->hdim >= HSP_MAX_RANK) {
        return hsp_err_set(err, HSP_EINVAL, 0, "groups cut dim %d", u->hdim);
    }
    if (u->interleaved && u->hdim < 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "groups that cut no dim are not interleaved");
    }
    for (uint32_t i = 0; i < u->k; i++) {
        enum hsp_status st = check_ds(&u->ds[i], i, u->dg[i].n, err);
        if (st != HSP_OK) {
            return st;
        }
        for (uint32_t k = 0; k < u->dg[i].n; k++) {
            uint32_t d = u->dg[i].device[k];
            if (d >= HSP_MAX_RANKS || seen[d]) {
                return hsp_err_set(err, HSP_EINVAL, 0, "device %u %s", d,
                                   d >= HSP_MAX_RANKS ? "is above the limit" : "is in two places");
            }
            seen[d] = true;
        }
    }
    return HSP_OK;
}

static struct hsp_annot *leaf(uint32_t rank, struct hsp_arena *arena)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a != NULL) {
        a->rank = rank;
    }
    return a;
}

/* Makes a tier for @n children, which the caller fills in; @shares NULL: an even tier. Returns NULL
 * if memory is short. */
static struct hsp_annot *tier_of(int8_t dim, uint32_t n, const int64_t *shares,
                                 struct hsp_arena *arena)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a == NULL) {
        return NULL;
    }
    a->tier = dim == HSP_DS_DUP       ? HSP_TIER_DUP
              : dim == HSP_DS_PARTIAL ? HSP_TIER_PARTIAL
                                      : HSP_TIER_SPLIT;
    a->n = n;
    a->of = hsp_arena_array(arena, n, sizeof *a->of);
    if (a->of == NULL || a->tier != HSP_TIER_SPLIT) {
        return a->of != NULL ? a : NULL;
    }
    a->dim = (uint8_t)dim;
    a->shares = hsp_arena_array(arena, n, sizeof *a->shares);
    for (uint32_t i = 0; a->shares != NULL && i < n; i++) {
        a->shares[i] = shares != NULL ? shares[i] : 1;
    }
    return a->shares != NULL ? a : NULL;
}

/* Builds the tree for the entries from @entry on, over the devices that begin at @device. An entry
 * with a count of 1 adds no tier. Recursion is bounded by HSP_MAX_DS. */
static struct hsp_annot *group_tree(const struct hsp_ds *ds, uint8_t entry, const uint32_t *device,
                                    struct hsp_arena *arena)
{
    while (entry < ds->n && ds->count[entry] == 1) {
        entry++;
    }
    if (entry == ds->n) {
        return leaf(device[0], arena);
    }
    uint32_t step = stride(ds, entry);
    struct hsp_annot *a = tier_of(ds->dim[entry], ds->count[entry], NULL, arena);
    for (uint32_t i = 0; a != NULL && i < a->n; i++) {
        a->of[i] = group_tree(ds, (uint8_t)(entry + 1), device + (size_t)i * step, arena);
        if (a->of[i] == NULL) {
            return NULL;
        }
    }
    return a;
}

enum hsp_status hsp_union_annot(const struct hsp_union *u, struct hsp_arena *arena,
                                struct hsp_annot **ret, struct hsp_err *err)
{
    enum hsp_status st = check_union(u, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_annot *top = NULL;
    if (u->k == 1) {
        top = group_tree(&u->ds[0], 0, u->dg[0].device, arena);
    } else {
        top = tier_of(u->hdim, u->k, u->shares, arena);
        for (uint32_t i = 0; top != NULL && i < u->k; i++) {
            top->of[i] = group_tree(&u->ds[i], 0, u->dg[i].device, arena);
            top = top->of[i] != NULL ? top : NULL;
        }
    }
    if (top == NULL) {
        return hsp_err_nomem(err, "tree of a union");
    }
    top->interleaved = u->interleaved;
    *ret = top;
    return HSP_OK;
}
