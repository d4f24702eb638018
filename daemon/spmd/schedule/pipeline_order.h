/* Orders the passes of work of a stage by the schedule of its pipeline.
 *
 * A pass is forward, backward, or a half of backward, of one chunk of the stage over one
 * micro-batch. Every rank of the stage has the same order. Passes of one kind and chunk come in the
 * order of micro-batches. With S stages, stage s, m micro-batches:
 *
 *   1f1b         PipeDream-Flush (Narayanan et al., Memory-efficient pipeline-parallel DNN
 *                training, 2021): first min(m, S - s - 1) forwards, then one forward and one
 *                backward in turn.
 *   gpipe        all forwards, then all backwards (Huang et al., 2019).
 *   interleaved  1F1B over chunks (Narayanan et al., Efficient large-scale language model training
 *                on GPU clusters, 2021). The paper passes micro-batches through the chunks in
 *                groups of S, so its m must be a multiple of S. This order allows any m: groups are
 *                as equal as possible and have at least S micro-batches (if m < S, there is one
 *                group). Before its first backward a stage runs 2 (S - s - 1) + (chunks - 1) *
 *                largest group forward passes. If all passes take equal time, the idle time of a
 *                rank is that of the paper for every m >= S: (S - 1) / chunks of a micro-batch's
 *                time.
 *   zero_bubble  ZB-H1 (Qi et al., Zero bubble pipeline parallelism, 2023): 1F1B with backward in
 *                two passes: the gradients of inputs at once, and the gradients of weights s
 *                micro-batches later, when the stage would be idle. If all passes take equal time,
 *                S
 *                - 1 passes are idle instead of 3 (S - 1). Every stage then keeps the activations
 *                  of
 *                S micro-batches; under 1F1B only the first stage keeps so many.
 *
 * Example: 1f1b, S = 2, m = 4. Stage 0: F0 F1 B0 F2 B1 F3 B2 B3; stage 1: F0 B0 F1 B1 F2 B2 F3 B3.
 *
 * Purity: pure. */
#ifndef HSP_PIPELINE_ORDER_H
#define HSP_PIPELINE_ORDER_H
#include "daemon/plan/plan.h"
#include "proto/program/program.h"

struct hsp_pass {
    uint8_t kind; /* enum hsp_segment_kind: FORWARD, BACKWARD, INPUT_GRAD, WEIGHT_GRAD, EVAL */
    uint32_t chunk, micro;
};

struct hsp_pipeline_order {
    uint32_t n_train, n_eval;
    struct hsp_pass *train, *eval; /* owned */
};

/* The number of passes of a stage of @s in training. */
uint32_t hsp_order_count(const struct hsp_pipeline *s);
/* Writes the passes of stage @stage to @ret in order; there are hsp_order_count() of them. */
void hsp_order_passes(const struct hsp_pipeline *s, uint32_t stage, struct hsp_pass *ret);
/* The largest number of micro-batches that are at once between their forward pass of chunk @chunk
 * and the last one of it. */
uint32_t hsp_order_alive(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk);
/* The largest number of micro-batches that are at once between the two halves of their backward. 0
 * for the first stage: no stage waits for gradients of its input, so all of its backward is the
 * second half. */
uint32_t hsp_order_waiting(const struct hsp_pipeline *s, uint32_t stage);
/* Messages from one rank to a rank of another stage for which there is room. With gpipe a stage
 * sends more before anything comes back, and a send waits for room. */
uint32_t hsp_order_room(const struct hsp_pipeline *s);
/* Messages that a stage may have sent and its receiver not taken, at most (kept_messages.h): to the
 * next stage, or @back to the stage before. */
uint32_t hsp_order_kept(const struct hsp_pipeline *s, uint32_t stage, bool back);

/* Both orders of a stage; @eval_n_micro: micro-batches of validation. HSP_ENOMEM. */
enum hsp_status hsp_order_make(const struct hsp_pipeline *s, uint32_t stage, uint32_t eval_n_micro,
                               struct hsp_pipeline_order *ret, struct hsp_err *err);
void hsp_order_fini(struct hsp_pipeline_order *o);

#endif
