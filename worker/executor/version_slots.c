#include "worker/executor/version_slots.h"

#include <stdbool.h>

static uint64_t sealed_in(const struct hsp_state_segment *s)
{
    return s != NULL ? hsp_segment_version(s) : HSP_NO_VERSION;
}

uint32_t hsp_slot_of(const struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                     uint64_t version)
{
    const uint64_t taken = atomic_load(&s->taken);
    const uint64_t v[2] = {sealed_in(seg[0]), sealed_in(seg[1])};
    if (v[0] == version || v[1] == version) {
        return v[0] != version;
    }
    if (taken / 2 == version) {
        return taken % 2;
    }
    if (seg[0] == NULL || seg[1] == NULL) {
        return seg[0] == NULL && seg[1] != NULL;
    }
    if (v[0] == HSP_NO_VERSION || v[1] == HSP_NO_VERSION) {
        bool both = v[0] == v[1];
        return both ? 1 - taken % 2 : v[0] != HSP_NO_VERSION;
    }
    return v[1] < v[0];
}

uint32_t hsp_slot_take(struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                       uint64_t version)
{
    uint32_t slot = hsp_slot_of(s, seg, version);
    atomic_store(&s->taken, version * 2 + slot);
    return slot;
}
