#include "tests/unit/daemon/plan/plan_model.h"

#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_use.h"
#include "tests/lib/testlib.h"

struct hsp_train_spec plan_training(uint8_t optimizer, uint32_t vocab)
{
    return (struct hsp_train_spec){
        .hyper =
            {.optimizer = optimizer, .beta1 = 0.9, .beta2 = 0.95, .steps = PLAN_STEPS, .lr = 0.01},
        .data = {.global_batch = PLAN_BATCH,
                 .sequence = PLAN_SEQUENCE,
                 .eval_seqs = PLAN_EVAL_SEQS,
                 .validation_every = 1,
                 .validation_fraction = 0.1,
                 .vocab = vocab},
        .eps = 1e-3, /* differences of noise in zero gradients must not grow in the update */
        .weight_decay = 0.1,
        .momentum = 0.9};
}

struct plan_model plan_model_of(const struct hsp_model_spec *spec, uint8_t optimizer)
{
    struct plan_model m = {.t = plan_training(optimizer, PLAN_VOCAB)};
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(spec, &m.g, &err), &err);
    if (m.g->seed == HSP_NONE) {
        assert_ok(hsp_graph_autodiff(m.g, &err), &err);
    }
    m.t.data.vocab = (uint32_t)spec->vocab;
    return m;
}

struct plan_model plan_model(const char *family, bool tied, int64_t layers, uint8_t optimizer)
{
    struct hsp_model_spec s = {.layers = layers,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = PLAN_VOCAB,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = tied,
                               .dtype = HSP_F64};
    (void)snprintf(s.family, sizeof s.family, "%s", family);
    return plan_model_of(&s, optimizer);
}

enum hsp_status plan_home(const struct hsp_graph *g, const struct hsp_plan *p, uint32_t param,
                          struct hsp_cover *ret, struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    const bool *units = NULL;
    if (arena == NULL) {
        return hsp_err_nomem(err, "home of a parameter");
    }
    enum hsp_status rc = hsp_param_units(g, arena, &units, err);
    if (rc == HSP_OK) {
        rc = hsp_param_home(g, p, units, param, arena, ret, err);
    }
    arena = hsp_arena_free(arena);
    return rc;
}
