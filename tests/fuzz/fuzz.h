/* Declares a fuzz target: a function of bytes that checks properties, and seeds to begin with.
 *
 * Role:   tests/fuzz/fuzz_NAME.c defines hsp_fuzz and LLVMFuzzerTestOneInput. With --enable-fuzz
 *         (clang) libFuzzer drives it; else seedmain.c does, with the seeds and changes of them.
 * Checks: HSP_ASSERT, which stands in every build; a property that fails ends the process.
 */
#ifndef HSP_FUZZ_H
#define HSP_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"

#define HSP_FUZZ_ARENA ((size_t)64 << 20) /* cap of hsp_fuzz_arena */

struct hsp_fuzz_target {
    const char *name;
    const char *folder; /* in the source tree: each file in it is a seed, NULL none */
    /* Appends the i-th made seed; false: there are no more. NULL: none are made. */
    bool (*seed)(size_t i, struct hsp_buf *out);
};
extern const struct hsp_fuzz_target hsp_fuzz;

/* One input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The arena of one input, empty at its begin; lives as long as the process. */
struct hsp_arena *hsp_fuzz_arena(void);

/* Two texts are equal; both are shown when they are not. */
void hsp_fuzz_same(struct hsp_buf *a, struct hsp_buf *b);

/* Calls @f for each made seed and each file of target->folder and tests/fuzz/seeds/NAME. */
void hsp_fuzz_each_seed(void (*f)(const char *name, const uint8_t *data, size_t len));

#endif
