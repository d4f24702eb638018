/* Writes a plan with pipelines as annotations of parameters and batches. */
#ifndef HSP_USE_FORM_H
#define HSP_USE_FORM_H
#include "daemon/plan/plan.h"

/* @cuts: tensor parallelism by cut points instead of shares. Home rules and total sections are left
 * out. */
void use_form(const struct hsp_plan *p, const struct hsp_graph *g, bool cuts, struct hsp_buf *out);

#endif
