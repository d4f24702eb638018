/* Counts the bytes of messages that a rank has sent and no receiver has taken yet.
 *
 * A send never waits for its receiver, so the transport keeps the message until the receiver takes
 * it. A message that comes back tells how many messages its sender had taken before.
 *
 * Example: stage 0 of three sends F0 F1 F2 before it receives the gradients of F0. Stage 1 had
 * taken F0 and F1 when it sent these. So stage 0 keeps three messages at first, and two later. With
 * gpipe a stage sends all messages before the first gradient comes back. The room is for one
 * message a stage and one more: a send waits where the transport has no more memory
 * (worker/comm/nccl/nccl_stage.h).
 *
 * In a validation no gradient comes back: there is room for two messages to a rank. Messages of
 * other kinds in a micro-batch, blocks of keys and values and gathered parameters (zero 3), have
 * room for those of two moves: while one move is taken the next one is sent.
 *
 * Role:   behind the schedules of all ranks.
 * Purity: pure and deterministic. */
#ifndef HSP_KEPT_MESSAGES_H
#define HSP_KEPT_MESSAGES_H
#include "daemon/plan/plan.h"
#include "proto/program/program.h"

#define HSP_KEPT_MOVES 2 /* of those of which nothing that comes back tells */

/* Adds the bytes of such messages to comm_bytes of all programs of @plan, but for the largest of
 * one move, which comm_bytes has already (memory_plan.h). HSP_ENOMEM. */
enum hsp_status hsp_kept_messages(const struct hsp_plan *plan, struct hsp_program *programs,
                                  struct hsp_err *err);

#endif
