/* Paces a device, so that it is worth a part of a core: sleeps after each instruction.
 *
 * An instruction that used c seconds of the thread's processor time is due c / speed seconds after
 * the instruction before was due. The due times do not shift when an instruction is late (a slow
 * wake-up, a busy host), so later sleeps are shorter, until the lateness is made up. Lateness of
 * more than HSP_PACE_LAG_NS is cut to that. Time outside of paced stretches (waiting, copies,
 * communication) shifts all due times by its length.
 *
 * Threads: confined to the paced thread; the backend must compute on that thread. */
#ifndef HSP_PACE_H
#define HSP_PACE_H
#include <stdatomic.h>
#include <stdint.h>

#define HSP_PACE_LAG_NS INT64_C(50000000)

struct hsp_pace {
    double speed;           /* the part of a core; 0: not paced */
    int64_t due_ns;         /* when the work done so far is due; monotonic clock */
    int64_t left_ns;        /* when the last paced stretch ended */
    int64_t cpu_ns;         /* the thread's processor time at the last instruction */
    int64_t slept_ns;       /* total duration of the sleeps */
    const atomic_int *stop; /* not 0: no more sleeps */
};

/* Returns the time of the monotonic clock. */
int64_t hsp_clock_ns(void);

/* Lets the due times begin now. @stop is borrowed; any thread may set it to end a sleep. */
void hsp_pace_init(struct hsp_pace *p, double speed, const atomic_int *stop);
void hsp_pace_enter(struct hsp_pace *p); /* begins a paced stretch */
void hsp_pace_done(struct hsp_pace *p);  /* sleeps until the instruction just done is due */
void hsp_pace_leave(struct hsp_pace *p); /* ends the stretch */

#endif
