/* Walks, copies and cuts regions of dense arrays by global boxes.
 *
 * Role:    everything in worker/state that moves or hashes parts of tensors.
 * Purity:  pure.
 * A held box is stored dense and row-major; offsets are elements from its first one.
 */
#ifndef HSP_REGION_H
#define HSP_REGION_H
#include "proto/layout/cover.h"
#include "worker/comm/runs.h"

/* Walks the elements of a region in row-major order as maximal runs that are contiguous in two
 * enclosing boxes at once (the box that holds it; another box, or the whole tensor). */
struct hsp_walk {
    uint8_t outer; /* dims walked one by one; the rest is one run */
    bool more;
    int64_t run;             /* elements of a run */
    int64_t n[HSP_MAX_RANK]; /* extents of the outer dims */
    int64_t at[HSP_MAX_RANK];
    int64_t stride[2][HSP_MAX_RANK]; /* of the outer dims in both boxes */
    int64_t off[2];                  /* of the next run */
};

/* @region lies inside @a and @b. */
void hsp_walk_init(struct hsp_walk *w, const struct hsp_box *region, const struct hsp_box *a,
                   const struct hsp_box *b);
/* False at the end; else the offsets of a run of w->run elements. */
bool hsp_walk_next(struct hsp_walk *w, int64_t *ret_a, int64_t *ret_b);

/* Copies @region, which both boxes hold, elements of @elem bytes. */
void hsp_region_copy(size_t elem, const struct hsp_box *region, const struct hsp_box *src_box,
                     const void *src, const struct hsp_box *dst_box, void *dst);

/* Describes @region in the dense @held at @data, elements of @elem bytes, as the memory of one
 * message; an empty region has no bytes. False: its runs are not at one distance. */
bool hsp_region_runs(size_t elem, const struct hsp_box *region, const struct hsp_box *held,
                     const void *data, struct hsp_runs *ret);

/* Cuts a box into slabs, ranges of dim 0 with all of the other dims, so that large tensors pass
 * through a small buffer. A slab is dense wherever the box is stored dense. */
struct hsp_slabs {
    struct hsp_box box;
    int64_t at, step; /* rows */
    bool more;
    size_t bytes; /* of the largest slab */
};

/* Cuts @box into slabs of at most @max bytes, or of one row where a row is longer. An empty box has
 * none. */
void hsp_slabs_init(struct hsp_slabs *s, const struct hsp_box *box, size_t elem, size_t max);
bool hsp_slabs_next(struct hsp_slabs *s, struct hsp_box *ret);

/* Cuts @b out of @a: disjoint boxes in @ret; returns their number. A box of rank 0 has one
 * element. */
#define HSP_MAX_REST (2 * HSP_MAX_RANK)
uint32_t hsp_box_minus(const struct hsp_box *a, const struct hsp_box *b,
                       struct hsp_box ret[HSP_MAX_REST]);

/* A growable list of boxes, owned: hsp_boxes_fini. Bound: HSP_MAX_BOXES. */
#define HSP_MAX_BOXES 65536 /* pieces of one transfer; a plan has a few per tensor and rank */
struct hsp_boxes {
    size_t n, cap;
    struct hsp_box *b;
};
/* False without memory or above the bound. */
bool hsp_boxes_add(struct hsp_boxes *l, const struct hsp_box *b);
/* Takes @b away from all of the list. False as above; the list is then not to be used. */
bool hsp_boxes_minus(struct hsp_boxes *l, const struct hsp_box *b);
void hsp_boxes_fini(struct hsp_boxes *l);

#endif
