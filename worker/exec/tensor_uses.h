/* Counts how often the instructions of a program read and write each tensor (def-use counts).
 *
 * Purity: pure. */
#ifndef HSP_TENSOR_USES_H
#define HSP_TENSOR_USES_H
#include "proto/program/program.h"

struct hsp_uses {
    uint8_t read, written; /* 255: 255 or more */
    uint32_t reader;       /* the last instruction that reads it */
};

/* Returns one element for each tensor of @t. The caller frees it by free(). Returns NULL without
 * memory. */
struct hsp_uses *hsp_uses_new(const struct hsp_template *t);
/* Returns true if @tensor is written once, read once, and not used after the micro-batch. Then an
 * op may write its value directly to where the reader would put it. */
bool hsp_is_passed_on(const struct hsp_template *t, const struct hsp_uses *u, uint32_t tensor);

#endif
