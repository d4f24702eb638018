/* Makes the first version of a device's state: draws it, or reads it from a safetensors file.
 *
 * Role:      called before the first step of a job. The values are functions of (seed, parameter,
 *            global index) (D5), so they are the same in each layout.
 * Ownership: the caller owns the state, which is state_bytes long.
 */
#ifndef HSP_STATE_INIT_H
#define HSP_STATE_INIT_H
#include "proto/program/program.h"
#include "worker/backend/cells.h"
#include "worker/state/safetensors_read.h"

/* Sets the parameters by their init rules, and all other state to 0. */
void hsp_state_init(const struct hsp_program *p, void *state);

/* Replaces the parameters by the tensors of the same names in the file of @r, and leaves all other
 * state as it is. Converts from any real type, such as fp32, fp64 and bf16. Returns HSP_ENOENT if
 * the file has no such tensor; HSP_EINVAL if a tensor has another shape or no real type; HSP_EIO;
 * HSP_ENOMEM. */
enum hsp_status hsp_state_import(const struct hsp_program *p, const struct hsp_st_reader *r,
                                 void *state, struct hsp_err *err);

/* Returns the view of state tensor @k of the binding in the memory @state. */
struct hsp_cell_view hsp_state_view(const struct hsp_program *p, uint32_t k, void *state);
/* Returns the name of state tensor @k without the suffix that program-made tensors have (from '#'
 * on), copied into @buf of HSP_MAX_NAME + 1 bytes. */
const char *hsp_state_name(const struct hsp_program *p, uint32_t k, char *buf);

/* Calls @fn for each run of consecutive elements of a tensor that the box @held contains, in the
 * order in which @held stores them. @full is the box of the tensor. @first_global: index of the
 * run's first element in the tensor; @first_local: its index in @held. Stops at the first error of
 * @fn and returns it. */
typedef enum hsp_status (*hsp_run_fn)(void *ctx, uint64_t first_global, int64_t first_local,
                                      int64_t n, struct hsp_err *err);
enum hsp_status hsp_box_runs(const struct hsp_box *held, const struct hsp_box *full, hsp_run_fn fn,
                             void *ctx, struct hsp_err *err);

#endif
