/* Plays a processor that looks at its operands: whether a probe's numbers look like those of
 * training.
 *
 * Looked at are the inputs of every call: finite numbers, none subnormal, none above 1 (statistics:
 * 100), hardly any zero, about as large as uniform ones are, and no two inputs alike. The processor
 * has a clock, as a device. */
#ifndef HSP_OPERANDS_H
#define HSP_OPERANDS_H
#include "worker/backend/backend.h"

struct operands {
    struct hsp_backend base; /* first */
    struct hsp_backend *cpu;
    unsigned calls[HSP_N_DTYPES]; /* by the type of the first input */
    unsigned wrong;               /* calls with something else; the first in words: */
    char what[160];
    uint64_t n_marks;
    double mark_s[HSP_MAX_MARKS];
};

/* Takes @cpu over; freed by its close. */
struct operands *operands_open(struct hsp_backend *cpu);

#endif
