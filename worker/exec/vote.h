/* Encodes votes, the small records that all ranks send before the update of a step, and computes
 * the outcome of all of them (decisions D4, D9). All numbers are summed in rank order in fp64, so
 * every rank gets the same bits.
 *
 * Purity: pure. */
#ifndef HSP_VOTE_H
#define HSP_VOTE_H
#include "proto/program/sheet.h"
#include "worker/backend/backend.h"

#define HSP_VOTE_BYTES   96
#define HSP_VOTE_CHANNEL UINT32_MAX

struct hsp_vote_record {
    uint32_t rank;
    uint32_t flags; /* the caller's; 0 */
    uint64_t step;
    double stat[HSP_N_STATS]; /* this rank's sums */
    uint64_t armed;           /* epoch this rank is ready to switch to; 0 none */
    double compute_s;         /* since the vote before: the update of the last step is in it */
    double wait_s;            /* of the step so far */
    uint64_t data; /* hsp_data_cursor_mark of version `step`: all ranks stand at one place */
    /* The caller's: hashes of state that other ranks have too, weighted so that those of all ranks
     * add up to 0 where equal copies are equal; or 0 */
    uint64_t state;
};

/* The outcome of the records of one step. */
struct hsp_vote {
    uint64_t step;
    double loss; /* mean over the step's tokens */
    double tokens;
    double norm;      /* of the mean gradient */
    double lr, clip;  /* clip: factor in (0, 1] */
    double eval_loss; /* mean over the validation list; 0 without one */
    double eval_tokens;
    bool noop;      /* loss or norm not finite: the update is a copy */
    uint64_t armed; /* epoch all ranks are armed for; 0: not all, or different ones */
    struct hsp_update_scalars scalars;
};

/* 96 bytes, little endian: u32 rank, flags, u64 step, f64 stat[5], u64 armed, f64 compute, wait,
 * u64 data, u64 state. */
void hsp_vote_encode(const struct hsp_vote_record *r, uint8_t out[HSP_VOTE_BYTES]);
void hsp_vote_decode(const uint8_t in[HSP_VOTE_BYTES], struct hsp_vote_record *ret);

/* HSP_EPROTO: record @i is not of rank @i and this step, or its rank is elsewhere in the data: such
 * a version is never committed. */
enum hsp_status hsp_vote_count(const struct hsp_vote_record *all, uint32_t n, uint64_t step,
                               const struct hsp_train_bind *h, struct hsp_vote *ret,
                               struct hsp_err *err);
/* Whether copies of the state that must be equal are, as far as 64 bits tell. */
bool hsp_vote_state_agrees(const struct hsp_vote_record *all, uint32_t n);

#endif
