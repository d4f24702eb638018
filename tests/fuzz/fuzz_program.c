/* Decodes programs: an accepted template or binding encodes to the bytes it came from; one that the
 * decoder accepts passes the check, prints, and, when it is of one small rank, runs a step.
 * Input: u32 length of the template, template, binding. The digest of the template is put into the
 * binding, no fuzzer finds it. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/le.h"
#include "proto/program/binding_codec.h"
#include "proto/program/program.h"
#include "proto/program/program_check.h"
#include "proto/program/program_dump.h"
#include "proto/program/template_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/data/synthetic.h"
#include "worker/run/local_run.h"

enum {
    CODE_MAX = 16 << 20,
    DIGEST_AT = 16,       /* in a binding: behind magic, version, rank, number of ranks */
    RUN_MEMORY = 1 << 16, /* bytes of a program that is run */
    RUN_COMM = 1 << 20,   /* bytes of its pack buffers */
    RUN_LENGTH = 256      /* instructions, entries */
};

static void same_code(const struct hsp_buf *b, const uint8_t *data, size_t len)
{
    HSP_ASSERT(!b->failed);
    HSP_ASSERT(b->len == len && memcmp(b->data, data, len) == 0);
}

static bool is_small(const struct hsp_program *p)
{
    const struct hsp_binding *b = &p->bind;
    uint64_t n = (uint64_t)b->train.n[0] + b->train.n[1] + b->eval.n[0] + b->eval.n[1];
    uint64_t cells = 0;
    for (uint32_t i = 0; i < b->n_reshards; i++) {
        for (uint32_t k = 0; k < b->reshard[i].n_moves; k++) {
            cells += b->reshard[i].moves[k].n_cells;
        }
    }
    return b->n_ranks == 1 && b->memory_bytes <= RUN_MEMORY && b->state_bytes <= RUN_MEMORY &&
           b->host_bytes <= RUN_MEMORY && b->comm_bytes <= RUN_COMM && n <= RUN_LENGTH &&
           cells <= RUN_LENGTH && p->tpl.n_instrs <= RUN_LENGTH &&
           b->data.global_batch <= RUN_LENGTH && b->data.eval_seqs <= RUN_LENGTH;
}

/* With any computation, the program stays inside its memory and ends. */
static void run(const struct hsp_program *p)
{
    static struct hsp_dataset dataset;
    struct hsp_err err = {0};
    struct hsp_local *l = NULL;
    static const struct hsp_data_bind letters = {.seed = 1, .vocab = 16};
    if (dataset.file == NULL) {
        HSP_ASSERT(hsp_dataset_synthetic(&letters, 4096, &dataset, NULL) == HSP_OK);
    }
    struct hsp_local_opts o = {.n = 1, .programs = p, .dataset = &dataset, .threads = 1};
    enum hsp_status st = hsp_local_open(&o, &l, &err);
    if (st == HSP_OK) {
        st = hsp_local_run(l, 0, 1, &err);
    }
    HSP_ASSERT(st == HSP_OK || err.msg[0] != '\0');
    (void)hsp_local_close(l);
}

static void whole(const struct hsp_program *p)
{
    struct hsp_buf b;
    struct hsp_err err = {0};
    if (hsp_program_check(p, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    hsp_buf_init(&b, CODE_MAX);
    hsp_program_dump(p, &b);
    hsp_buf_fini(&b);
    if (is_small(p)) {
        run(p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_program p;
    struct hsp_buf b;
    size_t tpl_len = len >= 4 ? hsp_le_get(data, 4) : SIZE_MAX;
    if (len < 4 || tpl_len > len - 4) {
        return 0;
    }
    const uint8_t *tpl = data + 4;
    enum hsp_status st = hsp_template_decode(tpl, tpl_len, arena, &p.tpl, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM || st == HSP_EVERSION);
        HSP_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    hsp_buf_init(&b, CODE_MAX);
    HSP_ASSERT(hsp_template_encode(&p.tpl, &b) == HSP_OK);
    same_code(&b, tpl, tpl_len);
    hsp_buf_fini(&b);
    size_t n = len - 4 - tpl_len;
    uint8_t *bind = malloc(n + 1);
    HSP_ASSERT(bind != NULL);
    memcpy(bind, tpl + tpl_len, n);
    if (n >= DIGEST_AT + 16) {
        hsp_le_put(bind + DIGEST_AT, p.tpl.digest.hi, 8);
        hsp_le_put(bind + DIGEST_AT + 8, p.tpl.digest.lo, 8);
    }
    if (hsp_binding_decode(bind, n, &p.tpl, arena, &p.bind, &err) == HSP_OK) {
        hsp_buf_init(&b, CODE_MAX);
        HSP_ASSERT(hsp_binding_encode(&p.tpl, &p.bind, &b) == HSP_OK);
        same_code(&b, bind, n);
        hsp_buf_fini(&b);
        whole(&p);
    }
    free(bind);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct tiny_spec s = {.n_ranks = 1 + (uint32_t)i % 2,
                          .global_batch = 4,
                          .n_micro = 1 + (uint32_t)i / 2,
                          .vocab = 16,
                          .hidden = 4,
                          .sequence = 8,
                          .steps = 5,
                          .validation_every = i == 2 ? 2 : 0,
                          .dtype = i == 2 ? HSP_F64 : HSP_F32,
                          .scatter = i == 3};
    const struct hsp_program *p = tiny_programs(&s, hsp_fuzz_arena());
    struct hsp_buf tpl, bind;
    hsp_buf_init(&tpl, CODE_MAX);
    hsp_buf_init(&bind, CODE_MAX);
    HSP_ASSERT(hsp_template_encode(&p->tpl, &tpl) == HSP_OK);
    HSP_ASSERT(hsp_binding_encode(&p->tpl, &p->bind, &bind) == HSP_OK);
    hsp_buf_blob(out, tpl.data, tpl.len);
    hsp_buf_append(out, bind.data, bind.len);
    hsp_buf_fini(&tpl);
    hsp_buf_fini(&bind);
    return i < 4;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "program", .seed = seed};
