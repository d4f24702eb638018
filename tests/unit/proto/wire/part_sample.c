#include "tests/unit/proto/wire/part_sample.h"

#include "proto/base/size.h"

struct hsp_trace_part part_sample(void)
{
    static struct hsp_part_msg msgs[] = {{7, 1, true}, {8, 2, false}};
    static struct hsp_part_label labels[] = {
        {.name = "linear h.0.q",
         .queue = HSP_PART_COMPUTE,
         .cls = HSP_PART_PRODUCT,
         .phase = 1,
         .n_instrs = 1,
         .flops = {0, 0, 1e6}},
        {.name = "send-receive h.0",
         .queue = HSP_PART_COMM,
         .cls = HSP_PART_MOVE,
         .phase = 2,
         .chunk = 1,
         .n_instrs = 2,
         .n_msgs = 2,
         .msgs = msgs},
        {.name = "seal",
         .queue = HSP_PART_STATE,
         .cls = HSP_PART_OTHER,
         .phase = HSP_PART_NO_PHASE},
    };
    static struct hsp_part_span spans[] = {
        {.label = 0, .micro = 0, .step = 0, .at_ns = 0, .took_ns = 1000},
        {.label = 0, .micro = 1, .step = 0, .at_ns = 1000, .took_ns = 500},
        {.label = 0, .micro = 0, .step = 1, .eval = true, .at_ns = 9000, .took_ns = 0},
        {.label = 1, .micro = 1, .step = 0, .at_ns = 1500, .took_ns = 7000},
        {.label = 2, .at_ns = 200, .took_ns = 100},
    };
    return (struct hsp_trace_part){.base_ns = 5000000000,
                                   .first_step = 41,
                                   .n_steps = 2,
                                   .done = 2,
                                   .lost = 3,
                                   .error_ns = 4000,
                                   .n_labels = HSP_ARRAY_LEN(labels),
                                   .labels = labels,
                                   .n_spans = HSP_ARRAY_LEN(spans),
                                   .spans = spans};
}
