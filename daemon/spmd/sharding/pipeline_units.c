#include "daemon/spmd/sharding/pipeline_units.h"

uint32_t hsp_chunk_first_block(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk)
{
    uint32_t first = 0;
    for (uint32_t c = 0; c <= chunk; c++) {
        for (uint32_t i = 0; i < (c < chunk ? s->n_stages : stage); i++) {
            first += hsp_chunk_layers(&s->stages[i], c);
        }
    }
    return first;
}

void hsp_chunk_units(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk,
                     uint32_t *ret_first, uint32_t *ret_end)
{
    uint32_t first = 1 + hsp_chunk_first_block(s, stage, chunk), chunks = hsp_pipeline_chunks(s);
    uint32_t end = first + hsp_chunk_layers(&s->stages[stage], chunk);
    *ret_first = stage == 0 && chunk == 0 ? 0 : first;
    *ret_end = stage + 1 == s->n_stages && chunk + 1 == chunks ? end + 1 : end;
}

void hsp_place_of_unit(const struct hsp_pipeline *s, uint32_t unit, uint32_t *ret_stage,
                       uint32_t *ret_chunk)
{
    uint32_t end = 1, chunks = hsp_pipeline_chunks(s); /* the embedding goes with the first */
    for (uint32_t c = 0; c < chunks; c++) {
        for (uint32_t i = 0; i < s->n_stages; i++) {
            end += hsp_chunk_layers(&s->stages[i], c);
            if (unit < end) {
                *ret_stage = i;
                *ret_chunk = c;
                return;
            }
        }
    }
    *ret_stage = s->n_stages - 1; /* the head goes with the last */
    *ret_chunk = chunks - 1;
}
