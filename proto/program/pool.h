/* Holds several plans of one job alive at once, each for sequences of another length: a pool.
 *
 * All programs of a rank share its state: the same boxes at the same places of the slots. A step is
 * run by the plan with the shortest sequences that hold the step's longest document, which every
 * executor finds in the step sheet by itself. The others are idle meanwhile and need no memory:
 * only state outlives a step. Channels are numbered through all plans of a pool.
 *
 * Purity: pure.
 */
#ifndef HSP_POOL_H
#define HSP_POOL_H
#include "proto/program/program.h"

/* Checks that @shorter, in ascending order of their sequences, are programs of the same rank, job
 * and state as @one, whose sequences are the longest. HSP_EPARSE names the difference. */
enum hsp_status hsp_pool_check(const struct hsp_program *one,
                               const struct hsp_program *const *shorter, uint32_t n_shorter,
                               struct hsp_err *err);

/* The program for a step whose longest sample has @longest tokens. */
const struct hsp_program *hsp_pool_pick(const struct hsp_program *one,
                                        const struct hsp_program *const *shorter,
                                        uint32_t n_shorter, uint32_t longest);

/* Memory of the epoch, pack buffers not counted: that of the program which needs most; the same of
 * the pack buffers, of the host's memory, and of hsp_program_wide. */
int64_t hsp_pool_memory(const struct hsp_program *one, const struct hsp_program *const *shorter,
                        uint32_t n_shorter);
int64_t hsp_pool_comm(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter);
int64_t hsp_pool_host(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter);
int64_t hsp_pool_wide(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter);

#endif
