/* Writes to an audit folder the samples that each step has read, the hashes of the state before and
 * after a switch, and the times at which each device computed.
 *
 * Role:    for tests, and to prove which samples a model has seen; off by default.
 * Purity:  shell (files).
 * Format:  NODE-DEVICE.jsonl has one JSON line per step and stream. NODE-DEVICE.state has one JSON
 *          line before and one after a switch, with the box and content hash of each sealed part.
 *          Hashes of disjoint boxes of one tensor add up, mod 2^64, to the hash of their union
 *          (box_hash.h), so the two lines can be compared however the two layouts cut the tensors.
 *          NODE-DEVICE.activity has a record of 16 bytes, host byte order, for each finished
 *          instruction of the compute queue: i64 monotonic clock in ns, u32 epoch (its low 32
 *          bits), u32 kind of segment (enum hsp_segment_kind). NODE-DEVICE.memory has one JSON line
 *          for each epoch of a CPU: the address of the state in the process. The state is laid out
 *          as in the area of its segment (worker/state/segment.h).
 */
#ifndef HSP_AUDIT_H
#define HSP_AUDIT_H
#include "worker/executor/epoch.h"

/* Writes the samples of @step before its vote, so that no committed step lacks a line. A step that
 * was not committed is computed again and gets a second line; the line of the newest epoch is the
 * valid one. In each pipeline only the rank that counts the pipeline's tokens writes. Returns
 * HSP_OK without an audit folder, and HSP_EIO or HSP_ENOSPC if the line cannot be written. */
enum hsp_status hsp_audit_step(const struct hsp_ex_epoch *e, uint64_t step, struct hsp_err *err);

/* Writes the hashes of this member's own state, which is sealed as @version. @begins: an epoch
 * begins with @version; else an epoch ends with it. A line that cannot be written is logged. */
void hsp_audit_state(const struct hsp_ex_epoch *e, uint64_t version, bool begins);

/* Writes the address of the state with which this member computes, for tests that damage that
 * state. A line that cannot be written is logged. */
void hsp_audit_memory(const struct hsp_ex_epoch *e);

/* Writes a record that compute instruction @instr is done; called by the engine's `traced` hook.
 * Instructions of the communication queue are ignored. After a failed write no more records are
 * written, and the training goes on. Does nothing without an audit folder. */
void hsp_audit_instr(struct hsp_ex_epoch *e, uint32_t instr);

#endif
