/* @@SENTENCE@@ pipeline_units: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_PIPELINE_UNITS_H
#define HSP_PIPELINE_UNITS_H
#include "daemon/plan/plan.h"

/* The first block of that chunk, or the one that would be. */
uint32_t hsp_chunk_first_block(const struct hsp_stream *s, uint32_t stage, uint32_t chunk);
/* Pipeline units of one chunk of a stage: [*ret_first, *ret_end). Units go through all stages chunk
 * by chunk. */
void hsp_chunk_units(const struct hsp_stream *s, uint32_t stage, uint32_t chunk,
                     uint32_t *ret_first, uint32_t *ret_end);
/* The stage of @s that runs pipeline unit @unit, and in which chunk. */
void hsp_place_of_unit(const struct hsp_stream *s, uint32_t unit, uint32_t *ret_stage,
                       uint32_t *ret_chunk);

#endif
