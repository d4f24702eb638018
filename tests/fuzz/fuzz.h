/* Declares a fuzz target: a function of bytes that checks properties, and seeds to begin with.
 *
 * Role:   tests/fuzz/fuzz_NAME.c defines hsp_fuzz and LLVMFuzzerTestOneInput. With --enable-fuzz
 *         (clang) libFuzzer calls it; else seedmain.c does, with the seeds and with mutations of
 *         the seeds.
 * Checks: targets check properties with HSP_ASSERT, which is on in every build: a property that
 *         fails aborts the process.
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
    /* Appends the i-th generated seed. Returns false if there is none. NULL: the target has no
     * generated seeds. */
    bool (*seed)(size_t i, struct hsp_buf *out);
};
extern const struct hsp_fuzz_target hsp_fuzz;

/* Runs the target on one input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Returns the arena for one input. The arena is emptied for each input, and lives as long as the
 * process. */
struct hsp_arena *hsp_fuzz_arena(void);

/* Checks that two texts are equal, and shows both if they are not. */
void hsp_fuzz_same(struct hsp_buf *a, struct hsp_buf *b);

/* Calls @f for each made seed and each file of target->folder and tests/fuzz/seeds/NAME. */
void hsp_fuzz_each_seed(void (*f)(const char *name, const uint8_t *data, size_t len));

#endif
