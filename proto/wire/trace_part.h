/* Describes the blob of TRACED: when one device did each piece of work in a few steps of an epoch.
 *
 * Role:      made by an executor, put together with those of the others by hspmdd (hspmdctl trace).
 * Purity:    pure.
 * Ownership: a decoded part lives in the arena given.
 * Bounds:    HSP_PART_ limits; the blob itself is at most HSP_MSG_TRACE_MAX.
 * Time:      nanoseconds of the monotonic clock of the device's host; spans begin `at` behind
 *            `base`.
 */
#ifndef HSP_TRACE_PART_H
#define HSP_TRACE_PART_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/op/gemm_class.h"

#define HSP_PART_STEPS  64u    /* of a trace */
#define HSP_PART_SPANS  65536u /* of a device */
#define HSP_PART_LABELS 65536u
#define HSP_PART_MSGS   4096u /* of a label */
#define HSP_PART_NAME   127u  /* bytes */

enum hsp_part_queue { HSP_PART_COMPUTE, HSP_PART_COMM, HSP_PART_STATE };
#define HSP_N_PART_QUEUES 3

enum hsp_part_class {                    /* the kind of a span's work */
                      HSP_PART_PRODUCT,  /* multiplications: flops */
                      HSP_PART_ELEMENTS, /* memory: bytes */
                      HSP_PART_MOVE,     /* between devices */
                      HSP_PART_OTHER     /* loads, votes, seals; runs of several kinds */
};
#define HSP_N_PART_CLASSES 4

struct hsp_part_msg { /* between this device and another rank */
    uint32_t channel; /* the same at both ends, and of no other message of a micro-batch */
    uint32_t peer;    /* rank */
    bool out;
};

struct hsp_part_label {
    const char *name; /* "linear h.0.attn.q" */
    uint8_t queue;    /* enum hsp_part_queue */
    uint8_t cls;      /* enum hsp_part_class */
    uint8_t phase;    /* enum hsp_segment_kind; HSP_PART_NO_PHASE */
    uint32_t chunk;   /* of the stage */
    uint32_t n_instrs;
    double flops[HSP_N_GEMM_CLASSES]; /* of products, by their shape; */
    double bytes; /* read and written by the others; of one span, of a full micro-batch */
    uint32_t n_msgs;
    struct hsp_part_msg *msgs;
};
#define HSP_PART_NO_PHASE 8

struct hsp_part_span {
    uint32_t label, micro;
    uint16_t step; /* from first_step */
    bool eval;
    uint64_t at_ns, took_ns;
};

struct hsp_trace_part {
    int64_t base_ns;
    uint64_t first_step;
    uint32_t n_steps, done; /* asked for; whole in it */
    uint64_t lost;          /* spans that are not in it */
    uint64_t error_ns;      /* its device's time may be off its host's clock by as much */
    uint32_t n_labels, n_spans;
    struct hsp_part_label *labels;
    struct hsp_part_span *spans; /* of each queue in order */
};

/* HSP_ELIMIT: over a limit or the buffer's maximum; HSP_ENOMEM. */
enum hsp_status hsp_trace_part_encode(const struct hsp_trace_part *p, struct hsp_buf *out,
                                      struct hsp_err *err);
/* HSP_EPROTO names what is malformed: unknown queues, classes or phases, labels that are not there,
 * figures that are negative or not finite, spans of a queue that overlap or go back, times beyond
 * 2^62, bytes left over. HSP_ENOMEM. *ret untouched. */
enum hsp_status hsp_trace_part_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                      struct hsp_trace_part *ret, struct hsp_err *err);

#endif
