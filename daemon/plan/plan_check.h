/* Checks the rules that every plan keeps, so that the compiler meets only plans that fit the model.
 *
 * Purity:    pure. */
#ifndef HSP_PLAN_CHECK_H
#define HSP_PLAN_CHECK_H
#include "daemon/plan/plan.h"

/* Whether @name fits @pattern: * is any text, ? any one character. */
bool hsp_plan_name_fits(const char *pattern, const char *name);
/* The same for a @pattern with a range (name_range.h): @name fits with some number of the range.
 * @text is scratch; nomem is set there. */
bool hsp_plan_names_fit(const char *pattern, const char *name, struct hsp_buf *text);
/* Every rule a plan must keep for this model: layers add up, each rank used once, sequences add up
 * to the global batch, micro-batches not above sequences, shares not all zero, micro-batches of one
 * size where a stage cuts them, no cut sequence where the model makes one row of it; stated sizes
 * are those of the executor, stated homes name parameters, each once. Messages name the rule. */
enum hsp_status hsp_plan_check(const struct hsp_plan *p, const struct hsp_graph *g,
                               uint32_t global_batch, struct hsp_err *err);

#endif
