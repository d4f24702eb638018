/* Opens the sealed segments of one layout that are on this device, homes and copies, as sources of
 * a transfer. Terms: epoch.h.
 *
 * Purity:    shell (files of the state folder).
 * Bounds:    HSP_EPOCH_SOURCES.
 */
#ifndef HSP_EPOCH_SOURCES_H
#define HSP_EPOCH_SOURCES_H
#include "proto/layout/box.h"
#include "worker/executor/epoch.h"
#include "worker/state/box_hash.h"
#include "worker/state/shards.h"

#define HSP_EPOCH_SOURCES 4096 /* most segments of one layout on one device: homes and copies */

struct hsp_epoch_sources {
    struct hsp_state_segment *seg[HSP_EPOCH_SOURCES];
    struct hsp_shards shards; /* shards of these segments */
    struct hsp_gift served;   /* these sources, for the reaper */
};

/* Opens the segments on this device that are sealed as @version of layout @plan. A segment with a
 * damaged head is reported and deleted. Returns errors of segments; then no segment is left
 * open. */
enum hsp_status hsp_epoch_sources_open(struct hsp_ex_epoch *e, uint64_t plan, uint64_t version,
                                       struct hsp_epoch_sources *s, struct hsp_err *err);
/* Closes and frees @sources, a struct hsp_epoch_sources on the heap. Called by a reaper, because
 * unmapping much memory takes long. */
void hsp_epoch_sources_free(void *sources);

/* Returns the number of bytes of one kind of state (a weight, m, v) of row @r. */
static inline size_t hsp_epoch_kind_bytes(const struct hsp_ex_epoch *e, const struct hsp_pkg_row *r)
{
    return (size_t)hsp_box_count(&r->box) * hsp_dtype_size(e->pkg.dtype);
}

static inline struct hsp_box_id hsp_epoch_box_id(const struct hsp_ex_epoch *e, uint32_t param,
                                                 uint8_t kind)
{
    return (struct hsp_box_id){.tensor = param,
                               .kind = e->pkg.kinds[kind],
                               .dtype = e->pkg.dtype,
                               .full = e->pkg.params[param].ext};
}

#endif
