/* Reads program files. An accepted file, encoded and read again, is the same, and its programs pass
 * the check. */
#include <string.h>

#include "proto/program/program.h"
#include "proto/program/program_check.h"
#include "proto/program/program_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/worker/exec/tiny_program.h"

enum { FILE_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_program_file f, back;
    enum hsp_status st = hsp_program_file_decode(data, len, arena, &f, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
        return 0;
    }
    struct hsp_buf one, two;
    hsp_buf_init(&one, FILE_MAX);
    hsp_buf_init(&two, FILE_MAX);
    for (uint32_t i = 0; i < f.n + f.n_ref; i++) {
        const struct hsp_program *p = i < f.n ? &f.programs[i] : &f.ref[i - f.n];
        HSP_ASSERT(hsp_program_check(p, NULL) == HSP_OK);
    }
    HSP_ASSERT(hsp_program_file_encode(&f, &one) == HSP_OK);
    HSP_ASSERT(hsp_program_file_decode(one.data, one.len, arena, &back, &err) == HSP_OK);
    HSP_ASSERT(hsp_program_file_encode(&back, &two) == HSP_OK);
    hsp_fuzz_same(&one, &two);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct tiny_spec s = {.n_ranks = 2,
                          .global_batch = 4,
                          .n_micro = 1,
                          .vocab = 16,
                          .hidden = 4,
                          .sequence = 8,
                          .steps = 5,
                          .dtype = HSP_F64};
    struct hsp_program_file f = tiny_file(&s, arena);
    f.out_dir = f.init_from = "";
    if (i == 0) {
        f.data_path = "";
        f.n_ref = 0;
        f.ref = NULL;
    }
    return i < 2 && hsp_program_file_encode(&f, out) == HSP_OK;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "progfile", .seed = seed};
