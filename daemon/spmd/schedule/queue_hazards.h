/* Finds for each entry of a queue the last earlier entry of the other queue that touches the same
 * bytes in a conflicting way, which the entry waits for.
 *
 * The memory is cut at the boundaries of all tensors; the last reader and writer of each interval
 * are known for each queue. The bytes that a piece touches are listed once, not again for each
 * micro-batch. The step's statistics and the outcome of the vote count as bytes beyond the memory.
 *
 * Purity: pure. */
#ifndef HSP_QUEUE_HAZARDS_H
#define HSP_QUEUE_HAZARDS_H
#include "proto/program/program.h"

struct hsp_waits;

/* Memory of @p is assigned. @p is borrowed. HSP_ENOMEM. */
enum hsp_status hsp_waits_new(const struct hsp_program *p, struct hsp_waits **ret,
                              struct hsp_err *err);
struct hsp_waits *hsp_waits_free(struct hsp_waits *w);
/* Forgets all entries. */
void hsp_waits_reset(struct hsp_waits *w);
/* Entry @number (from 1, ascending) of its queue runs @piece for @micro: for how many entries of
 * the other queue it waits. */
uint32_t hsp_waits_next(struct hsp_waits *w, uint32_t piece, uint32_t micro, uint32_t number);
/* The same of an entry that may be a part of a piece; its wait is not looked at. */
uint32_t hsp_waits_part(struct hsp_waits *w, const struct hsp_sched_entry *e, uint32_t number);

#endif
