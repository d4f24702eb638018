#include "daemon/spmd/schedule/timeline_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/program/micro_size.h"
#include "proto/program/sheet.h"
#include "proto/text/yaml_write.h"

#define NAME_MAX_BYTES 24 /* of a pass: letter, micro-batch, chunk */

static char letter_of(uint8_t kind)
{
    return kind == HSP_SEG_FORWARD ? 'F' : kind == HSP_SEG_WEIGHT_GRAD ? 'W' : 'B';
}

static char fill_of(uint8_t kind)
{
    return kind == HSP_SEG_FORWARD ? '-' : kind == HSP_SEG_WEIGHT_GRAD ? '~' : '=';
}

static int name_unit(const struct hsp_pass *u, bool chunks, char ret[NAME_MAX_BYTES])
{
    int n = snprintf(ret, NAME_MAX_BYTES, "%c%u", letter_of(u->kind), u->micro);
    if (!chunks) {
        return n;
    }
    return u->chunk < 26
               ? snprintf(ret, NAME_MAX_BYTES, "%c%u%c", letter_of(u->kind), u->micro,
                          'a' + (char)u->chunk)
               : snprintf(ret, NAME_MAX_BYTES, "%c%u.%u", letter_of(u->kind), u->micro, u->chunk);
}

double hsp_draw_scale(const struct hsp_timeline *t, uint32_t columns)
{
    double shortest = (double)INFINITY;
    int longest_name = 0;
    for (size_t i = 0; i < (size_t)t->n_stages * t->n_passes; i++) {
        char name[NAME_MAX_BYTES];
        double us = t->at[i].to_us - t->at[i].from_us;
        int n = name_unit(&t->at[i].pass, true, name);
        shortest = us > 0 && us < shortest ? us : shortest;
        longest_name = n > longest_name ? n : longest_name;
    }
    if (!(t->end_us > 0)) {
        return 1;
    }
    return fmax(shortest / (longest_name + 1), t->end_us / columns);
}

/* Units of one stage into a row of @n columns. */
static double draw_row(const struct hsp_timeline *t, uint32_t stage, bool chunks, double scale,
                       char *row, size_t n)
{
    double busy = 0;
    for (uint32_t i = 0; i < t->n_passes; i++) {
        const struct hsp_interval *at = &t->at[(size_t)stage * t->n_passes + i];
        size_t from = (size_t)llround(at->from_us / scale), to = (size_t)llround(at->to_us / scale);
        char name[NAME_MAX_BYTES];
        size_t len = (size_t)name_unit(&at->pass, chunks, name);
        busy += at->to_us - at->from_us;
        for (size_t k = from; k < to && k < n; k++) {
            row[k] = k - from < len ? name[k - from] : fill_of(at->pass.kind);
        }
    }
    return busy;
}

void hsp_draw_text(const struct hsp_pipeline *s, const struct hsp_timeline *t, double us_per_column,
                   struct hsp_buf *out)
{
    char row[HSP_DRAW_COLUMNS_MAX + 1];
    size_t n = (size_t)llround(t->end_us / us_per_column);
    n = n < sizeof row - 1 ? n : sizeof row - 1;
    for (uint32_t i = 0; i < t->n_stages; i++) {
        memset(row, ' ', n);
        row[n] = '\0';
        double busy = draw_row(t, i, hsp_pipeline_chunks(s) > 1, us_per_column, row, n);
        double idle = t->end_us > 0 ? 100 * (1 - busy / t->end_us) : 0;
        hsp_buf_printf(out, "stage %-3u %s  idle %.0f%%\n", i, row, fabs(idle));
    }
}

/* ---- trace ---- */

struct tracer {
    const struct hsp_plan *p;
    const struct hsp_timeline *t;
    struct hsp_buf *out;
    uint32_t n; /* events so far */
};

static void put_begin(struct tracer *x, const char *name, char phase, uint32_t pipeline,
                      uint32_t rank)
{
    hsp_buf_printf(x->out, "%s\n{\"name\":\"%s\",\"ph\":\"%c\",\"pid\":%u,\"tid\":%u",
                   x->n++ > 0 ? "," : "", name, phase, pipeline, rank);
}

static void put_time(struct tracer *x, const char *category, double from_us, double to_us)
{
    hsp_buf_printf(x->out, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f", category, from_us,
                   to_us - from_us);
}

static void put_named(struct tracer *x, const char *what, uint32_t pipeline, uint32_t rank,
                      const char *name)
{
    put_begin(x, what, 'M', pipeline, rank);
    hsp_buf_puts(x->out, ",\"args\":{\"name\":");
    hsp_yaml_put_json_str(x->out, name);
    hsp_buf_puts(x->out, "}}");
}

static const char *category_of(uint8_t kind)
{
    switch ((enum hsp_segment_kind)kind) {
    case HSP_SEG_FORWARD: return "forward";
    case HSP_SEG_INPUT_GRAD: return "input gradients";
    case HSP_SEG_WEIGHT_GRAD: return "weight gradients";
    case HSP_SEG_BACKWARD:
    case HSP_SEG_PRE:
    case HSP_SEG_POST:
    case HSP_SEG_EVAL:
    case HSP_SEG_SERVE: break;
    }
    return "backward";
}

static void trace_units(struct tracer *x, uint32_t pipeline, uint32_t stage, uint32_t rank)
{
    const struct hsp_pipeline *s = &x->p->pipelines[pipeline];
    const struct hsp_timeline *t = &x->t[pipeline];
    for (uint32_t i = 0; i < t->n_passes; i++) {
        const struct hsp_interval *at = &t->at[(size_t)stage * t->n_passes + i];
        char name[NAME_MAX_BYTES];
        (void)name_unit(&at->pass, hsp_pipeline_chunks(s) > 1, name);
        put_begin(x, name, 'X', pipeline, rank);
        put_time(x, category_of(at->pass.kind), at->from_us, at->to_us);
        hsp_buf_printf(x->out, ",\"args\":{\"micro_batch\":%u,\"chunk\":%u,\"sequences\":%u}}",
                       at->pass.micro, at->pass.chunk,
                       hsp_micro_size(s->sequences, s->micro_batches, at->pass.micro));
    }
}

static void trace_after(struct tracer *x, uint32_t pipeline, uint32_t rank, double from_us,
                        const struct hsp_draw_after *after)
{
    static const char *const names[] = {"gradients", "vote", "update"};
    const double us[] = {after->sync_us, after->vote_us, after->update_us[rank]};
    for (int i = 0; i < 3; i++) {
        if (us[i] > 0) {
            put_begin(x, names[i], 'X', pipeline, rank);
            put_time(x, names[i], from_us, from_us + us[i]);
            hsp_buf_puts(x->out, "}");
        }
        from_us += us[i];
    }
}

void hsp_draw_trace(const struct hsp_plan *p, const struct hsp_timeline *t,
                    const char *const *device, const struct hsp_draw_after *after,
                    struct hsp_buf *out)
{
    struct tracer x = {.p = p, .t = t, .out = out};
    double end_us = 0;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        end_us = fmax(end_us, t[i].end_us);
    }
    hsp_buf_puts(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "pipeline %u", i);
        put_named(&x, "process_name", i, 0, name);
        for (uint32_t j = 0; j < p->pipelines[i].n_stages; j++) {
            const struct hsp_stage *g = &p->pipelines[i].stages[j];
            for (uint32_t k = 0; k < g->n; k++) {
                (void)snprintf(name, sizeof name, "stage %u, rank %u, %.32s", j, g->ranks[k],
                               device[g->ranks[k]]);
                put_named(&x, "thread_name", i, g->ranks[k], name);
                trace_units(&x, i, j, g->ranks[k]);
                trace_after(&x, i, g->ranks[k], end_us, after);
            }
        }
    }
    hsp_buf_puts(out, "\n]}\n");
}
