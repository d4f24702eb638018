/* Gives the notes of steps (step_log.h) to all that begin an epoch, so that they go where the state
 * goes: whoever ends the job can tell of each step, also of those that were made where nobody is any
 * more.
 *
 *   rank 0 has steps 0 to 40, 1 has 0 to 42 (it passed the last votes), 2 is new:
 *     1 -> 0, 2 -> 0     what they have: 0..42; nothing
 *     0 -> 1, 0 -> 2     what rank 0 wants: 41..42; nothing
 *     1 -> 0             those two lines
 *     0 -> 1, 0 -> 2     what they lack: nothing; 0..42
 *
 * Of a step that was made again the newest epoch's line counts.
 *
 * Purity:  shell (the file of the device, and messages of the mesh of the move, else of the state).
 */
#ifndef HSP_STEP_SHARE_H
#define HSP_STEP_SHARE_H
#include "worker/executor/epoch.h"

/* For all peers of an epoch that goes on from state; nothing where PREPARE does not ask for it, as an
 * older program is among them. Errors of the mesh; HSP_ENOMEM. What is wrong with the file of this device is
 * logged: others have noted the same steps. */
enum hsp_status hsp_notes_share(struct hsp_ex_epoch *e, struct hsp_err *err);

/* Steps from..to, which @epoch made. Lists are in order of steps, each step is in one range. */
struct hsp_step_range {
    uint64_t epoch, from, to;
};
struct hsp_step_ranges {
    struct hsp_step_range *r; /* owned */
    size_t n, cap;
};
/* Puts to *ret (empty) what @theirs has and @have has not, or has of an earlier epoch. HSP_ENOMEM. */
enum hsp_status hsp_ranges_lack(const struct hsp_step_ranges *have,
                                const struct hsp_step_ranges *theirs, struct hsp_step_ranges *ret,
                                struct hsp_err *err);
/* Puts @more, which @have lacks, into it. HSP_ENOMEM. */
enum hsp_status hsp_ranges_unite(struct hsp_step_ranges *have, const struct hsp_step_ranges *more,
                                 struct hsp_err *err);

#endif
