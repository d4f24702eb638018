/* Draws timelines as rows of text, and as trace events for Chrome and Perfetto.
 *
 * Purity: pure. A buffer without memory notes it (hsp_buf_status). */
#ifndef HSP_TIMELINE_DRAW_H
#define HSP_TIMELINE_DRAW_H
#include "daemon/spmd/schedule/timeline.h"

#define HSP_DRAW_COLUMNS_MAX 1024 /* of a row of text */

/* Microseconds of a column: as few as give the shortest pass room for its name and a gap, but so
 * many that the whole takes at most @columns <= HSP_DRAW_COLUMNS_MAX. 1 when no pass takes any
 * time. */
double hsp_draw_scale(const struct hsp_timeline *t, uint32_t columns);

/* A line for each stage: its passes by name, F forward, B backward (of a zero-bubble pipeline:
 * gradients of inputs), W gradients of weights, with the number of the micro-batch and, of several
 * chunks, a letter for the chunk from a on; a pass goes on in -, = or ~; blanks are idle. Names
 * are cut to their columns. Behind it stands the part of the pipeline's time that the stage
 * idles. */
void hsp_draw_text(const struct hsp_pipeline *s, const struct hsp_timeline *t, double us_per_column,
                   struct hsp_buf *out);

/* Times of a rank after its pipeline: update_us by rank, the others the same for all. */
struct hsp_draw_after {
    double sync_us, vote_us;
    const double *update_us;
};

/* Trace event format, a JSON object. A process is a pipeline, a thread a rank. @t: [pipeline].
 * @device: [rank], names. Gradients begin when the last pipeline has ended, then vote and
 * update. */
void hsp_draw_trace(const struct hsp_plan *p, const struct hsp_timeline *t,
                    const char *const *device, const struct hsp_draw_after *after,
                    struct hsp_buf *out);

#endif
