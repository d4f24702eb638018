/* Joins consecutive Reshards of the programs of a plan to buckets, which travel as one.
 *
 * Example: six reduce-scatters of 1, 1, 1, 8, 1 and 2 MiB, all over ranks 0 and 1, in buckets of 2
 * MiB or more: {1, 1}, {1, 8}, {1, 2}. A seventh over ranks 0 and 2 belongs to none of them.
 *
 * Reshards of a bucket are neighbours in the same piece on every rank of their group, so all ranks
 * find the same buckets: neighbours are judged by channels, sizes by the cells of the whole group.
 * No Reshard of a bucket reads memory that an earlier one writes, for all of them are packed before
 * the first result is unpacked. Templates stay as they are.
 *
 * Role:   between the programs of a plan and the proof that they finish (deadlock.h).
 * Purity: pure and deterministic (D13). */
#ifndef HSP_BUCKETS_H
#define HSP_BUCKETS_H
#include "proto/program/program.h"

/* Numbers the buckets of all @n programs, whose memory is assigned, and computes comm_bytes again.
 * @least: bytes at which a bucket is full; 0: no buckets. HSP_ENOMEM. */
enum hsp_status hsp_buckets_make(struct hsp_program *programs, uint32_t n, uint64_t least,
                                 struct hsp_err *err);

#endif
