/* Makes the models that the plans of plan_cases.h are for, and their training. */
#ifndef HSP_PLAN_MODEL_H
#define HSP_PLAN_MODEL_H
#include "daemon/graph/graph.h"
#include "daemon/spmd/codegen/compile.h"

enum { PLAN_BATCH = 7, PLAN_SEQUENCE = 4, PLAN_EVAL_SEQS = 5, PLAN_VOCAB = 11, PLAN_STEPS = 2 };

struct plan_model {
    struct hsp_graph *g; /* with gradients; hsp_graph_free */
    struct hsp_train_spec t;
};

/* @family: gpt or mlp, fp64, 3 heads of 2. Fails the test on error. */
struct plan_model plan_model(const char *family, bool tied, int64_t layers, uint8_t optimizer);
/* The same for any model; its vocabulary must not be above PLAN_VOCAB. */
struct plan_model plan_model_of(const struct hsp_model_spec *spec, uint8_t optimizer);
struct hsp_train_spec plan_training(uint8_t optimizer, uint32_t vocab);

/* Where @param lives under @p; hsp_cover_fini. */
enum hsp_status plan_home(const struct hsp_graph *g, const struct hsp_plan *p, uint32_t param,
                          struct hsp_cover *ret, struct hsp_err *err);

#endif
