/* Decodes the part of a trace: an accepted one encodes to the bytes it came from, its spans are in
 * order, and a document can be made of it. */
#include <math.h>

#include "daemon/app/docs/trace_doc.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/wire/part_sample.h"

enum { PART_MAX = 16 << 20 };

static void check_spans(const struct hsp_trace_part *p)
{
    uint64_t end[HSP_N_PART_QUEUES] = {0};
    for (uint32_t k = 0; k < p->n_spans; k++) {
        const struct hsp_part_span *s = &p->spans[k];
        HSP_ASSERT(s->label < p->n_labels);
        uint64_t *last = &end[p->labels[s->label].queue];
        HSP_ASSERT(s->at_ns >= *last);
        *last = s->at_ns + s->took_ns;
    }
}

static void check_document(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_arena_new(64 << 20);
    struct hsp_buf out;
    struct hsp_trace_device d[2] = {{.name = "a/0", .told = true, .blob = data, .len = len},
                                    {.name = "b/0",
                                     .told = true,
                                     .blob = data,
                                     .len = len,
                                     .offset_us = -3,
                                     .error_us = (double)INFINITY}};
    HSP_ASSERT(arena != NULL);
    hsp_buf_init(&out, 64 << 20);
    enum hsp_status st = hsp_trace_write(
        &(struct hsp_trace_job){.job = "j", .n = 2, .device = d, .note = ""}, arena, &out, NULL);
    HSP_ASSERT(st == HSP_OK || st == HSP_ELIMIT || st == HSP_ENOMEM);
    hsp_buf_fini(&out);
    (void)hsp_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_trace_part p;
    enum hsp_status st = hsp_trace_part_decode(data, len, arena, &p, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPROTO || st == HSP_ENOMEM);
        HSP_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    check_spans(&p);
    struct hsp_buf out, in;
    hsp_buf_init(&out, PART_MAX);
    hsp_buf_init(&in, PART_MAX);
    HSP_ASSERT(hsp_trace_part_encode(&p, &out, NULL) == HSP_OK);
    hsp_buf_append(&in, data, len);
    hsp_fuzz_same(&in, &out);
    hsp_buf_fini(&in);
    hsp_buf_fini(&out);
    check_document(data, len);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_trace_part p = part_sample();
    if (i == 0) { /* nothing was recorded */
        p.n_labels = p.n_spans = 0;
        p.base_ns = 0;
    }
    return i < 2 && hsp_trace_part_encode(&p, out, NULL) == HSP_OK;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "tracepart", .seed = seed};
