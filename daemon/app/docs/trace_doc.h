/* Joins the parts of a trace, of all devices of an epoch, into one document: trace events (JSON)
 * as Chrome and Perfetto read them, by time on one clock.
 *
 * A process of the document is a device (its pid is its rank), and a thread is one of its queues.
 * Times are those of hspmdd's monotonic clock, from the first span on; `otherData` has the largest
 * error of each device's clock. Messages between devices are flows. A receive may therefore appear
 * before its send, by less than the errors of the two clocks; times are never changed to hide this.
 * Purity:    pure.
 * Ownership: everything is borrowed.
 * Bounds:    HSP_TRACE_ALL_EVENTS spans and ends of messages; the buffer's maximum. */
#ifndef HSP_TRACE_DOC_H
#define HSP_TRACE_DOC_H
#include "daemon/planner/correct.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"

#define HSP_TRACE_ALL_EVENTS 1048576u

struct hsp_trace_device {
    const char *name;         /* NODE/INDEX */
    uint32_t pipeline, stage; /* of the plan; UINT32_MAX: not known */
    bool told;                /* its part is below */
    const uint8_t *blob;      /* trace_part.h */
    size_t len;
    double offset_us; /* hspmdd's clock is its own plus that, ... */
    double error_us;  /* ... to within that; not finite: it is not known */
};

struct hsp_trace_job {
    const char *job;
    uint64_t epoch;
    uint32_t n; /* by rank */
    const struct hsp_trace_device *device;
    const char *note; /* why it is not whole; "" it is */
};

/* Sums the times of the compute instructions of one part, by kind (matrix products, elementwise).
 * Spans of validation are left out, and so are spans that cover instructions of several kinds.
 * Errors are those of hsp_trace_part_decode. */
enum hsp_status hsp_trace_sums(const uint8_t *blob, size_t len, struct hsp_arena *arena,
                               struct hsp_measured *ret, struct hsp_err *err);

/* Writes the document. Parts that cannot be read are left out, and named in the document's note.
 * HSP_ELIMIT: too many spans, or @out is full; HSP_ENOMEM. */
enum hsp_status hsp_trace_write(const struct hsp_trace_job *t, struct hsp_arena *arena,
                                struct hsp_buf *out, struct hsp_err *err);

#endif
