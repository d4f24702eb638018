/* @@SENTENCE@@ resolve_reduction: purpose to be written. */
#ifndef HSP_RESOLVE_REDUCTION_H
#define HSP_RESOLVE_REDUCTION_H
#include "daemon/spmd/reshard/resolve_impl.h"

/* A task of several addends. */
enum hsp_status hsp_resolver_sum(struct hsp_resolver *r, const struct hsp_move_task *t,
                                 struct hsp_err *err);

#endif
