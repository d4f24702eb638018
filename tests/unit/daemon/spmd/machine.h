/* Runs all programs of a plan in one thread: kernels are the oracle's formulas, queues and waits
 * are taken literally, and the next entry is drawn at random, so that a missing wait shows.
 *
 * Every tensor instance leaves its tag on its bytes: reading bytes that were overwritten or never
 * written fails the test, and so do two running entries that touch the same bytes. */
#ifndef HSP_MACHINE_H
#define HSP_MACHINE_H
#include "proto/program/program.h"
#include "worker/backend/backend.h"

struct hsp_machine;

/* Value of an input: @seq is the position in the list of samples (validation: @eval). */
typedef int32_t (*hsp_machine_input)(uint8_t load, bool eval, uint32_t seq, int64_t col);

struct hsp_machine *hsp_machine_new(const struct hsp_program *p, uint32_t n, uint64_t seed,
                                    hsp_machine_input input);
void hsp_machine_free(struct hsp_machine *m);

/* Writes a state tensor everywhere from the whole tensor. */
void hsp_machine_set_state(struct hsp_machine *m, uint32_t param, uint8_t kind,
                           const struct hsp_array *whole);

/* Runs a schedule on all ranks. @scalars: for the updates, which write over the state. */
void hsp_machine_run(struct hsp_machine *m, bool eval, const struct hsp_update_scalars *scalars);

/* Sum over ranks of a statistic of the last run. */
double hsp_machine_stat(const struct hsp_machine *m, uint8_t stat);

/* Largest difference between @whole and the parts of the state that ranks hold; -1: an element that
 * nobody holds. */
double hsp_machine_state_error(const struct hsp_machine *m, uint32_t param, uint8_t kind,
                               const struct hsp_array *whole);
/* The same for the gradient the update of @param has read. */
double hsp_machine_grad_error(const struct hsp_machine *m, uint32_t param,
                              const struct hsp_array *whole);
/* True when all holders of an element of the state have the same bits. */
bool hsp_machine_replicas_equal(const struct hsp_machine *m, uint32_t param, uint8_t kind);

/* True when the ranks of both machines have the same bits of state in the same places. */
bool hsp_machine_same_state(const struct hsp_machine *a, const struct hsp_machine *b);

#endif
