/* Checks the rules that every plan keeps, so that the compiler meets only plans that fit the model.
 *
 * Purity:    pure. */
#ifndef HSP_PLAN_CHECK_H
#define HSP_PLAN_CHECK_H
#include "daemon/plan/plan.h"

/* Returns true if @name fits @pattern: * is any text, ? any one character. */
bool hsp_plan_name_fits(const char *pattern, const char *name);
/* Returns true if @name fits @pattern, which may have a range (name_range.h), with some number of
 * the range. @text is scratch memory; its nomem is set without memory. */
bool hsp_plan_names_fit(const char *pattern, const char *name, struct hsp_buf *text);
/* Checks every rule that a plan must keep for this model: layers add up, each rank is used once,
 * sequences add up to the global batch, there are not more micro-batches than sequences, and shares
 * are not all zero. If a stage cuts micro-batches, they have one size; if the model flattens a
 * sequence to one row, no stage cuts it. Sizes that the plan states are those of the executor, and
 * homes that it states name parameters, each once. Messages name the rule. */
enum hsp_status hsp_plan_check(const struct hsp_plan *p, const struct hsp_graph *g,
                               uint32_t global_batch, struct hsp_err *err);

#endif
