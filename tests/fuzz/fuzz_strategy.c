/* Strategies in the artifact's forms: an accepted one is a plan that reads back as itself. */
#include <string.h>

#include "daemon/spmd/strategy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/spmd/strategycases.h"

enum { TEXT_MAX = 16 << 20 };

static uint32_t sequences(const struct hsp_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_streams; i++) {
        n += p->streams[i].sequences;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_strategies all;
    enum hsp_status st = hsp_strategies_parse((const char *)data, len, "fuzz", arena, &all, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM);
        HSP_ASSERT(st == HSP_ENOMEM || strncmp(err.msg, "fuzz:", 5) == 0);
        HSP_ASSERT(strchr(err.msg, '\n') == NULL);
        return 0;
    }
    for (uint32_t i = 0; i < all.n; i++) {
        struct hsp_plan *p = all.of[i].plan, *back = NULL;
        struct hsp_buf one, two;
        hsp_buf_init(&one, TEXT_MAX);
        hsp_buf_init(&two, TEXT_MAX);
        hsp_plan_dump(p, &one);
        st = hsp_plan_parse(hsp_buf_cstr(&one), one.len, "dump", sequences(p), arena, &back, &err);
        if (st == HSP_OK) {
            hsp_plan_dump(back, &two);
            hsp_fuzz_same(&one, &two);
        } else if (st != HSP_ENOMEM) {
            hsp_assert_fail(err.msg, __FILE__, __LINE__);
        }
        hsp_buf_fini(&one);
        hsp_buf_fini(&two);
    }
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char *const text[] = {
        strategy_expanded,
        strategy_packed,
        strategy_rings,
        strategy_packed_rings,
        "{strategies: [{max_tp: 2, layers: [[1, 1]], micro_batches: [4], "
        "stage_devices: [[[3], [1, 2]]], cluster: c, model: m}]}",
        "{max_tp: 2, layers: [[1, 1], [2]], micro_batches: [4, 1], rank_to_device: [[0, 3], [1, 2],"
        " [2, 9], [3, 8], [5, 0]], unused_ranks: [4]}"};
    if (i < sizeof text / sizeof text[0]) {
        hsp_buf_puts(out, text[i]);
        return true;
    }
    return false;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "strategy", .seed = seed};
