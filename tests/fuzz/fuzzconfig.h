/* Checks a property of both configurations: an accepted one, printed and read again, is the same.
 * Input: the file, then values of the command line, each with a zero byte before it. */
#ifndef HSP_FUZZCONFIG_H
#define HSP_FUZZCONFIG_H

#include "proto/text/layers.h"
#include "tests/fuzz/fuzz.h"

/* A configuration of either program. */
struct hsp_fuzz_config {
    size_t size; /* of its struct */
    enum hsp_status (*load)(const struct hsp_layers *l, struct hsp_arena *arena, void *ret,
                            struct hsp_err *err);
    void (*print)(const void *c, struct hsp_buf *out);
};

void hsp_fuzz_config_one(const struct hsp_fuzz_config *kind, const uint8_t *data, size_t len);

/* Appends the defaults, every key with its value. */
void hsp_fuzz_config_defaults(const struct hsp_fuzz_config *kind, struct hsp_buf *out);

#endif
