/* Makes the first version of a device's state: draws it, or reads it from a safetensors file.
 *
 * Role:      before the first step of a job. Any layout gives the same values: they are functions
 *            of (seed, parameter, global index) (D5).
 * Ownership: the state is the caller's, state_bytes long.
 */
#ifndef HSP_STATE_INIT_H
#define HSP_STATE_INIT_H
#include "proto/program/program.h"
#include "worker/backend/cells.h"
#include "worker/state/safetensors_read.h"

/* Parameters by their init rule, everything else 0. */
void hsp_state_init(const struct hsp_program *p, void *state);

/* Replaces the parameters by the tensors of the same names; other state is left as it is.
 * HSP_ENOENT: no such tensor; HSP_EINVAL: another shape; HSP_EIO. fp32 and fp64 are converted. */
enum hsp_status hsp_state_import(const struct hsp_program *p, const struct hsp_st_reader *r,
                                 void *state, struct hsp_err *err);

/* State tensor @k of the binding in a state. */
struct hsp_cell_view hsp_state_view(const struct hsp_program *p, uint32_t k, void *state);
/* Its name without the suffix of program-made tensors, copied into @buf of HSP_MAX_NAME + 1. */
const char *hsp_state_name(const struct hsp_program *p, uint32_t k, char *buf);

/* Element indices of the tensor whose box is @full for each element of the view, in its order:
 * calls @fn for each run of consecutive ones. */
typedef enum hsp_status (*hsp_run_fn)(void *ctx, uint64_t first_global, int64_t first_local,
                                      int64_t n, struct hsp_err *err);
enum hsp_status hsp_box_runs(const struct hsp_box *held, const struct hsp_box *full, hsp_run_fn fn,
                             void *ctx, struct hsp_err *err);

#endif
