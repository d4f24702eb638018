/* Notes which samples each step has read, the state at both ends of a switch, and when
 * each device computed, so that a test can prove which samples a model has seen.
 *
 * Role:    written for tests, and to prove which samples a model has seen; off by default.
 * Purity:  shell (files).
 * Format:  NODE-DEVICE.jsonl has one JSON line per step and pipeline. NODE-DEVICE.state has one
 *          JSON line at each end of a switch, with the box and content hash of each sealed part.
 *          Hashes of disjoint boxes of one tensor add up, mod 2^64, to the hash of their union
 *          (box_hash.h), so both ends can be compared whatever the cuts. NODE-DEVICE.activity has a
 *          record of 16 bytes, host byte order, for each instruction of the compute queue when it
 *          is done: i64 monotonic clock in ns, u32 epoch (its low 32 bits), u32 kind of segment
 *          (enum hsp_segment_kind). NODE-DEVICE.memory has one JSON line for each epoch of a CPU:
 *          where in the process the state lies that it computes with, laid out as the area of its
 *          segments.
 */
#ifndef HSP_AUDIT_H
#define HSP_AUDIT_H
#include "worker/executor/epoch.h"

/* Notes the samples of @step before its vote, so that no committed step lacks a note. The notes of
 * the newest epoch count: a step that was not committed is computed again. Only the rank that
 * counts its pipeline's tokens writes. HSP_OK without an audit folder. HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_audit_step(const struct hsp_ex_epoch *e, uint64_t step, struct hsp_err *err);

/* Notes the hashes of this member's own state, which is sealed as @version, at the end of an epoch
 * and at the start of the next one. A note that cannot be written is told in the log. */
void hsp_audit_state(const struct hsp_ex_epoch *e, uint64_t version, bool begins);

/* Notes where the state lies that this member computes with, for tests that damage it. A note that
 * cannot be written is told in the log. */
void hsp_audit_memory(const struct hsp_ex_epoch *e);

/* Notes that compute instruction @instr is done; for the engine's `traced` hook. Instructions of
 * the other queue are passed over. A write that fails ends the notes, nothing else. Nothing without
 * an audit folder. */
void hsp_audit_instr(struct hsp_ex_epoch *e, uint32_t instr);

#endif
