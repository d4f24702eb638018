/* Notes the samples that each step has read, the state at both ends of a switch, and the times at
 * which each device computed.
 *
 * Role:    for tests, and to prove which samples a model has seen; off by default.
 * Purity:  shell (files).
 * Format:  NODE-DEVICE.jsonl has one JSON line per step and stream. NODE-DEVICE.state has one JSON
 *          line at each end of a switch, with the box and content hash of each sealed part. Hashes
 *          of disjoint boxes of one tensor add up, mod 2^64, to the hash of their union
 *          (box_hash.h), so both ends can be compared for any cuts. NODE-DEVICE.activity has a
 *          record of 16 bytes, host byte order, for each finished instruction of the compute
 *          queue: i64 monotonic clock in ns, u32 epoch (its low 32 bits), u32 kind of segment
 *          (enum hsp_segment_kind). NODE-DEVICE.memory has one JSON line for each epoch of a CPU:
 *          the address of the state in the process. The state has the layout of its segment's area.
 */
#ifndef HSP_AUDIT_H
#define HSP_AUDIT_H
#include "worker/executor/epoch.h"

/* Notes the samples of @step before its vote, so that no committed step lacks a note. The notes of
 * the newest epoch count: a step that was not committed is computed again. Only the rank that
 * counts its pipeline's tokens writes. HSP_OK without an audit folder. HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_audit_step(const struct hsp_ex_epoch *e, uint64_t step, struct hsp_err *err);

/* Notes the hashes of this member's own state, which is sealed as @version, at the end of an epoch
 * and at the start of the next epoch. A note that cannot be written is logged. */
void hsp_audit_state(const struct hsp_ex_epoch *e, uint64_t version, bool begins);

/* Notes the address of the state with which this member computes, for tests that damage that state.
 * A note that cannot be written is logged. */
void hsp_audit_memory(const struct hsp_ex_epoch *e);

/* Notes that compute instruction @instr is done; for the engine's `traced` hook. Instructions of
 * the other queue are ignored. A failed write ends the notes and nothing else. Does nothing without
 * an audit folder. */
void hsp_audit_instr(struct hsp_ex_epoch *e, uint32_t instr);

#endif
