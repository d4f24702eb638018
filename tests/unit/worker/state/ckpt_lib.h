/* Writes checkpoints of a small model, cut at random among ranks, for the tests of worker/state.
 * The checkpoints are of job ck_job of cluster ck_whose, written in ck_epoch; ck_setup sets
 * them. */
#ifndef HSP_CKPT_LIB_H
#define HSP_CKPT_LIB_H
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"

#define CK_PARTS   8
#define CK_TENSORS 4
#define CK_PIECES  (CK_TENSORS * 3 * CK_PARTS)

struct ck_tensor {
    const char *name;
    uint8_t rank;
    int64_t full[HSP_MAX_RANK];
};
extern const struct ck_tensor ck_tensors[CK_TENSORS];

/* A state cut at random into parts, dealt to ranks. */
struct ck_layout {
    struct hsp_ckpt_piece piece[CK_PIECES];
    uint32_t rank[CK_PIECES];
    size_t n;
};

extern struct hsp_whose ck_whose;
extern uint32_t ck_job;
extern uint64_t ck_epoch;
extern struct hsp_ckpt_done ck_done; /* of the last ck_commit */

int ck_setup(void **state); /* *state: a new folder */
int ck_teardown(void **state);
/* The state of @version, cut by @seed and dealt to @n_ranks. */
void ck_layout_init(struct ck_layout *l, uint64_t seed, uint32_t n_ranks, uint64_t version);
void ck_layout_fini(struct ck_layout *l);
struct hsp_ckpt_info ck_info_of(uint64_t step, uint32_t n_ranks);
enum hsp_status ck_write_rank(const char *dir, const struct hsp_ckpt_info *info,
                              const struct ck_layout *l, uint32_t rank, struct hsp_err *err);
/* The path of an attempt at @step of the job and cluster at hand; a static buffer. */
const char *ck_attempt_at(const char *dir, uint64_t step);
/* The place in the data of a job with batches of 12 whose passes end inside of a batch. */
struct hsp_data_cursor ck_data_of(uint64_t step);
enum hsp_status ck_commit(const char *dir, const struct hsp_ckpt_info *info, struct hsp_err *err);
/* Writes a complete step, with the state of version @step. */
void ck_write_step(const char *dir, uint64_t step, uint32_t n_ranks, uint64_t seed);
/* Counts elements that differ from those of @version. *ret_refused: tensors that are not read, for
 * damage. */
int64_t ck_wrong_tensors(const struct hsp_ckpt *c, uint64_t version, size_t *ret_refused);
void ck_assert_right(const struct hsp_ckpt *c, uint64_t version);

#endif
