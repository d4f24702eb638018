/* Prices a plan's Reshards of Forward and Backward, at places chosen by the compiler or by a
 * test. */
#ifndef HSP_PLACE_COST_H
#define HSP_PLACE_COST_H
#include "daemon/spmd/lower/stage_ir.h"
#include "tests/unit/daemon/plan/plan_model.h"

struct place_run {
    struct hsp_compiler c; /* hsp_layouts_make */
    struct hsp_arena *arena;
};

struct place_cost {
    int64_t sent; /* bytes of Forward and Backward of a step, by all ranks */
    uint32_t reshards;
    uint64_t hash; /* of the messages of every Reshard */
};

/* Plan @text for @m. @first, @forced: of hsp_compiler, NULL: as the compiler chooses. place_free,
 * also after a failure, which is HSP_EUNSUPPORTED: @forced cannot be. Fails the test on other
 * errors. */
enum hsp_status place_make(const struct plan_model *m, const char *text, const bool *first,
                           const struct hsp_forced *forced, struct place_run *ret);
void place_free(struct place_run *r);
struct place_cost place_cost(const struct place_run *r);
/* Both, of the possible places. */
struct place_cost place_lower(const struct plan_model *m, const char *text, const bool *first);
/* Whether the part counts: of Forward or Backward. */
bool place_counts(uint32_t part);

#endif
