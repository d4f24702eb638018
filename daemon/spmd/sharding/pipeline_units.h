/* Divides the pipeline units of a model (embedding, blocks, head) among the chunks and stages of a
 * pipeline.
 *
 * Example: 4 blocks, 2 stages with chunks [1, 1] each. Units 0 (embedding) and 1 are in chunk 0 of
 * stage 0, unit 2 in chunk 0 of stage 1, unit 3 in chunk 1 of stage 0, units 4 and 5 (head) in
 * chunk 1 of stage 1.
 *
 * Purity:    pure. */
#ifndef HSP_PIPELINE_UNITS_H
#define HSP_PIPELINE_UNITS_H
#include "daemon/plan/plan.h"

/* The first block of chunk @chunk of @stage; of a chunk without blocks, the block that would
 * follow. */
uint32_t hsp_chunk_first_block(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk);
/* Pipeline units of one chunk of a stage: [*ret_first, *ret_end). Units go through all stages chunk
 * by chunk. */
void hsp_chunk_units(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk,
                     uint32_t *ret_first, uint32_t *ret_end);
/* The stage of @s and its chunk that run pipeline unit @unit. */
void hsp_place_of_unit(const struct hsp_pipeline *s, uint32_t unit, uint32_t *ret_stage,
                       uint32_t *ret_chunk);

#endif
