/* Encodes and decodes the blob of TRACED. */
#include "proto/wire/trace_part.h"

#include <math.h>

#define MAGIC       0x31545048u /* "HPT1" */
#define MOST_NS     (UINT64_C(1) << 61)
#define LABEL_BYTES 67 /* at least */
#define SPAN_BYTES  27
#define MSG_BYTES   9

enum hsp_status hsp_trace_part_encode(const struct hsp_trace_part *p, struct hsp_buf *out,
                                      struct hsp_err *err)
{
    if (p->n_labels > HSP_PART_LABELS || p->n_spans > HSP_PART_SPANS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%u labels and %u spans of a trace", p->n_labels,
                           p->n_spans);
    }
    hsp_buf_u32(out, MAGIC);
    hsp_buf_i64(out, p->base_ns);
    hsp_buf_u64(out, p->first_step);
    hsp_buf_u32(out, p->n_steps);
    hsp_buf_u32(out, p->done);
    hsp_buf_u64(out, p->lost);
    hsp_buf_u64(out, p->error_ns);
    hsp_buf_u32(out, p->n_labels);
    for (uint32_t i = 0; i < p->n_labels; i++) {
        const struct hsp_part_label *l = &p->labels[i];
        hsp_buf_str(out, l->name);
        hsp_buf_u8(out, l->queue);
        hsp_buf_u8(out, l->cls);
        hsp_buf_u8(out, l->phase);
        hsp_buf_u32(out, l->chunk);
        hsp_buf_u32(out, l->n_instrs);
        for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
            hsp_buf_f64(out, l->flops[c]);
        }
        hsp_buf_f64(out, l->bytes);
        hsp_buf_u32(out, l->n_msgs);
        for (uint32_t k = 0; k < l->n_msgs; k++) {
            hsp_buf_u32(out, l->msgs[k].channel);
            hsp_buf_u32(out, l->msgs[k].peer);
            hsp_buf_u8(out, l->msgs[k].out);
        }
    }
    hsp_buf_u32(out, p->n_spans);
    for (uint32_t i = 0; i < p->n_spans; i++) {
        const struct hsp_part_span *s = &p->spans[i];
        hsp_buf_u32(out, s->label);
        hsp_buf_u32(out, s->micro);
        hsp_buf_u16(out, s->step);
        hsp_buf_u8(out, s->eval);
        hsp_buf_u64(out, s->at_ns);
        hsp_buf_u64(out, s->took_ns);
    }
    enum hsp_status st = hsp_buf_status(out);
    return st == HSP_OK
               ? st
               : hsp_err_set(err, st, 0, "the trace of a device is over %zu bytes", out->max);
}

static enum hsp_status bad(const struct hsp_cursor *c, struct hsp_err *err, const char *part)
{
    return c->nomem ? hsp_err_nomem(err, "%s of a device's trace", part)
                    : hsp_err_set(err, HSP_EPROTO, 0, "trace of a device: malformed %s", part);
}

static bool is_figure(double x)
{
    return isfinite(x) && x >= 0;
}

static enum hsp_status get_label(struct hsp_cursor *c, struct hsp_arena *arena,
                                 struct hsp_part_label *l, struct hsp_err *err)
{
    l->name = hsp_cur_str(c, HSP_PART_NAME, arena);
    l->queue = hsp_cur_u8(c);
    l->cls = hsp_cur_u8(c);
    l->phase = hsp_cur_u8(c);
    l->chunk = hsp_cur_u32(c);
    l->n_instrs = hsp_cur_u32(c);
    bool good = true;
    for (int k = 0; k < HSP_N_GEMM_CLASSES; k++) {
        l->flops[k] = hsp_cur_f64(c);
        good = good && is_figure(l->flops[k]);
    }
    l->bytes = hsp_cur_f64(c);
    l->n_msgs = hsp_cur_count(c, HSP_PART_MSGS, MSG_BYTES);
    if (c->failed || l->queue >= HSP_N_PART_QUEUES || l->cls >= HSP_N_PART_CLASSES ||
        l->phase > HSP_PART_NO_PHASE || !good || !is_figure(l->bytes)) {
        return bad(c, err, "label");
    }
    l->msgs = hsp_arena_array(arena, l->n_msgs, sizeof(*l->msgs));
    if (l->msgs == NULL) {
        return hsp_err_nomem(err, "the messages of a device's trace");
    }
    for (uint32_t k = 0; k < l->n_msgs; k++) {
        l->msgs[k].channel = hsp_cur_u32(c);
        l->msgs[k].peer = hsp_cur_u32(c);
        uint8_t out = hsp_cur_u8(c);
        l->msgs[k].out = out == 1;
        if (c->failed || out > 1) {
            return bad(c, err, "message");
        }
    }
    return HSP_OK;
}

/* @end: of the last span of each queue. */
static enum hsp_status get_span(struct hsp_cursor *c, const struct hsp_trace_part *p,
                                uint64_t end[HSP_N_PART_QUEUES], struct hsp_part_span *s,
                                struct hsp_err *err)
{
    s->label = hsp_cur_u32(c);
    s->micro = hsp_cur_u32(c);
    s->step = hsp_cur_u16(c);
    uint8_t eval = hsp_cur_u8(c);
    s->eval = eval == 1;
    s->at_ns = hsp_cur_u64(c);
    s->took_ns = hsp_cur_u64(c);
    if (c->failed || eval > 1 || s->label >= p->n_labels || s->step >= HSP_PART_STEPS ||
        s->at_ns > MOST_NS || s->took_ns > MOST_NS) {
        return bad(c, err, "span");
    }
    uint64_t *last = &end[p->labels[s->label].queue];
    if (s->at_ns < *last) {
        return bad(c, err, "order of spans");
    }
    *last = s->at_ns + s->took_ns;
    return HSP_OK;
}

static enum hsp_status get_lists(struct hsp_cursor *c, struct hsp_arena *arena,
                                 struct hsp_trace_part *p, struct hsp_err *err)
{
    uint64_t end[HSP_N_PART_QUEUES] = {0};
    enum hsp_status st = HSP_OK;
    p->n_labels = hsp_cur_count(c, HSP_PART_LABELS, LABEL_BYTES);
    p->labels = hsp_arena_array(arena, p->n_labels, sizeof(*p->labels));
    for (uint32_t i = 0; p->labels != NULL && i < p->n_labels && st == HSP_OK; i++) {
        st = get_label(c, arena, &p->labels[i], err);
    }
    if (st != HSP_OK) {
        return st;
    }
    p->n_spans = hsp_cur_count(c, HSP_PART_SPANS, SPAN_BYTES);
    p->spans = hsp_arena_array(arena, p->n_spans, sizeof(*p->spans));
    if (p->labels == NULL || p->spans == NULL) {
        return hsp_err_nomem(err, "the spans of a device's trace");
    }
    for (uint32_t i = 0; i < p->n_spans && st == HSP_OK; i++) {
        st = get_span(c, p, end, &p->spans[i], err);
    }
    return st;
}

enum hsp_status hsp_trace_part_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                      struct hsp_trace_part *ret, struct hsp_err *err)
{
    struct hsp_cursor c;
    struct hsp_trace_part p = {0};
    hsp_cur_init(&c, data, len);
    if (hsp_cur_u32(&c) != MAGIC) {
        return bad(&c, err, "head");
    }
    p.base_ns = hsp_cur_i64(&c);
    p.first_step = hsp_cur_u64(&c);
    p.n_steps = hsp_cur_u32(&c);
    p.done = hsp_cur_u32(&c);
    p.lost = hsp_cur_u64(&c);
    p.error_ns = hsp_cur_u64(&c);
    if (c.failed || p.base_ns < 0 || (uint64_t)p.base_ns > MOST_NS || p.n_steps > HSP_PART_STEPS ||
        p.done > p.n_steps || p.error_ns > MOST_NS) {
        return bad(&c, err, "head");
    }
    enum hsp_status st = get_lists(&c, arena, &p, err);
    if (st == HSP_OK && !hsp_cur_done(&c)) {
        st = bad(&c, err, "end");
    }
    if (st == HSP_OK) {
        *ret = p;
    }
    return st;
}
