/* Encodes votes, the small records that all ranks send before the update of a step, and computes
 * the outcome of all records (decisions D4, D9). All numbers are summed in rank order in fp64, so
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
    uint32_t flags; /* for the caller's use; 0 if it has none */
    uint64_t step;
    double stat[HSP_N_STATS]; /* this rank's sums */
    uint64_t armed;           /* epoch that this rank is ready to switch to; 0: none */
    /* seconds of compute since the vote before; they include the update of the last step */
    double compute_s;
    /* Seconds of waiting in the step so far; of a device that measures its seconds, since the vote
     * before. */
    double wait_s;
    /* Hash of the place in the data of version `step` (hsp_data_cursor_mark). A vote passes only if
     * it is equal on all ranks. */
    uint64_t data;
    /* For the caller's use: hashes of state that other ranks hold too, with such weights that the
     * values of all ranks add up to 0 if equal copies are equal; or 0. */
    uint64_t state;
};

/* The outcome of the records of one step. */
struct hsp_vote {
    uint64_t step;
    double loss; /* mean over the tokens of the step */
    double tokens;
    double norm;      /* norm of the mean gradient */
    double lr, clip;  /* clip: factor in (0, 1] */
    double eval_loss; /* mean over the validation list; 0 in a step without validation */
    double eval_tokens;
    bool noop; /* loss or norm is not finite: the update writes nothing */
    /* the epoch that all ranks are ready to switch to; 0: not all ranks, or not the same epoch */
    uint64_t armed;
    struct hsp_update_scalars scalars;
};

/* Encodes and decodes a record of 96 bytes, little endian: u32 rank, flags, u64 step, f64 stat[5],
 * u64 armed, f64 compute_s, wait_s, u64 data, u64 state. */
void hsp_vote_encode(const struct hsp_vote_record *r, uint8_t out[HSP_VOTE_BYTES]);
void hsp_vote_decode(const uint8_t in[HSP_VOTE_BYTES], struct hsp_vote_record *ret);

/* Computes the outcome of the records of @n ranks for step @step. Returns HSP_EPROTO if record @i
 * is not of rank @i and this step, or if its rank is at another place in the data than rank 0; then
 * the version is never committed. */
enum hsp_status hsp_vote_count(const struct hsp_vote_record *all, uint32_t n, uint64_t step,
                               const struct hsp_train_bind *h, struct hsp_vote *ret,
                               struct hsp_err *err);
/* Returns true if all copies of the state that must be equal are equal, as far as sums of 64 bits
 * tell. */
bool hsp_vote_state_agrees(const struct hsp_vote_record *all, uint32_t n);

#endif
