#include "tests/unit/worker/state/ckpt_lib.h"

#include <stdio.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/state/shard_write.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"

const struct ck_tensor ck_tensors[CK_TENSORS] = {
    {"wte.weight", 2, {23, 8}},
    {"h.0.attn.q.weight", 2, {8, 8}},
    {"h.0.attn.q.bias", 1, {8}},
    {"scale", 0, {0}},
};

void ck_layout_init(struct ck_layout *l, uint64_t seed, uint32_t n_ranks, uint64_t version)
{
    l->n = 0;
    for (uint32_t t = 0; t < CK_TENSORS; t++) {
        struct hsp_box whole = hsp_box_whole(ck_tensors[t].rank, ck_tensors[t].full),
                       part[CK_PARTS];
        for (uint8_t kind = 0; kind < 3; kind++) {
            size_t n = random_cuts(&whole, CK_PARTS - 1, "parts", seed * 50 + t * 3 + kind, part);
            for (size_t i = 0; i < n; i++) {
                /* the memory holds more than the part that is written */
                struct hsp_box held = part[i];
                for (uint8_t d = 0; d < held.rank; d++) {
                    held.hi[d] = (seed + i) % 2 ? held.hi[d] : whole.hi[d];
                }
                float *data = malloc((size_t)hsp_box_count(&held) * 4);
                assert_non_null(data);
                fill_box(HSP_F32, t, kind, version, ck_tensors[t].full, &held, data);
                l->rank[l->n] = (uint32_t)(hsp_test_rand("deal", seed * 999 + l->n) % n_ranks);
                l->piece[l->n++] = (struct hsp_ckpt_piece){ck_tensors[t].name,
                                                           t,
                                                           kind,
                                                           HSP_F32,
                                                           ck_tensors[t].full,
                                                           part[i],
                                                           held,
                                                           data,
                                                           0};
            }
        }
    }
}

void ck_layout_fini(struct ck_layout *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free((void *)(uintptr_t)l->piece[i].data);
    }
}

enum hsp_status ck_write_rank(const char *dir, const struct hsp_ckpt_info *info,
                              const struct ck_layout *l, uint32_t rank, struct hsp_err *err)
{
    struct hsp_ckpt_piece mine[CK_PIECES];
    size_t n = 0;
    uint64_t bytes;
    for (size_t i = 0; i < l->n; i++) {
        if (l->rank[i] == rank) {
            mine[n++] = l->piece[i];
        }
    }
    return shard_write(dir, info, rank, mine, n, &bytes, err);
}

struct hsp_whose ck_whose = {{1, 2}, UINT64_MAX - 4};

uint32_t ck_job = 3;
uint64_t ck_epoch = 7;

struct hsp_ckpt_info ck_info_of(uint64_t step, uint32_t n_ranks)
{
    return (struct hsp_ckpt_info){"gpt",      step,   2,        ck_epoch, n_ranks,
                                  CK_TENSORS, ck_job, ck_whose, false};
}

/* The path of an attempt at @step of the job and cluster at hand. */
const char *ck_attempt_at(const char *dir, uint64_t step)
{
    static char path[4300];
    char name[HSP_CKPT_NAME];
    struct hsp_ckpt_info us = ck_info_of(step, 1);
    hsp_ckpt_tmp_name(&us, name);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

#define CONFIG "{\"family\":\"gpt\"}"

/* The place in the data of a job with batches of 12 whose passes end inside of a batch. */
struct hsp_data_cursor ck_data_of(uint64_t step)
{
    return (struct hsp_data_cursor){.digest = {0x123456789abcdef0, UINT64_MAX},
                                    .bytes = UINT64_MAX - 5,
                                    .n_tokens = (UINT64_C(1) << 60) + 1,
                                    .seed = UINT64_MAX,
                                    .pass_samples = 17,
                                    .samples = step * 12,
                                    .sequence = UINT32_MAX,
                                    .separator = 50256,
                                    .format = HSP_DATA_LLMC,
                                    .packing = HSP_PACKING_START};
}

struct hsp_ckpt_done ck_done;

enum hsp_status ck_commit(const char *dir, const struct hsp_ckpt_info *info, struct hsp_err *err)
{
    struct hsp_data_cursor data = ck_data_of(info->step);
    return hsp_ckpt_commit(dir, info, &data, CONFIG, &ck_done, err);
}

void ck_write_step(const char *dir, uint64_t step, uint32_t n_ranks, uint64_t seed)
{
    struct hsp_ckpt_info info = ck_info_of(step, n_ranks);
    struct ck_layout l;
    struct hsp_err err = {0};
    ck_layout_init(&l, seed, n_ranks, step);
    for (uint32_t r = 0; r < n_ranks; r++) {
        assert_ok(ck_write_rank(dir, &info, &l, r, &err), &err);
    }
    assert_ok(ck_commit(dir, &info, &err), &err);
    ck_layout_fini(&l);
}

/* Counts elements that differ from those of @version. *ret_refused: tensors that are not read, for
 * damage. */
int64_t ck_wrong_tensors(const struct hsp_ckpt *c, uint64_t version, size_t *ret_refused)
{
    float x[23 * 8];
    int64_t wrong = 0;
    struct hsp_err err = {0};
    *ret_refused = 0;
    for (size_t i = 0; i < hsp_ckpt_count(c); i++) {
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor_at(c, i);
        struct hsp_box whole = hsp_box_whole(t->rank, t->full);
        enum hsp_status st = hsp_ckpt_read(c, t, &whole, &whole, x, &err);
        if (st == HSP_EDIGEST) {
            assert_non_null(strstr(err.msg, "/shard-0"));
            ++*ret_refused;
            continue;
        }
        assert_ok(st, &err);
        wrong += wrong_in_box(HSP_F32, t->tensor, t->kind, version, t->full, &whole, &whole, x);
    }
    return wrong;
}

void ck_assert_right(const struct hsp_ckpt *c, uint64_t version)
{
    size_t refused;
    assert_int_equal(ck_wrong_tensors(c, version, &refused), 0);
    assert_int_equal(refused, 0);
}

int ck_setup(void **state)
{
    *state = hsp_test_tmpdir();
    ck_whose = (struct hsp_whose){{1, 2}, UINT64_MAX - 4};
    ck_job = 3;
    ck_epoch = 7;
    return 0;
}

int ck_teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}
