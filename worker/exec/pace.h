/* Paces a device, so that it is worth a part of a core.
 *
 * An instruction that used c seconds of the thread's processor time is due c / speed seconds after
 * the previous one, on an absolute schedule: lateness (a slow wake-up, a busy host) is caught up
 * for as long as it is below HSP_PACE_LAG. Time outside paced stretches (waiting, copies,
 * communication) shifts the schedule by itself.
 *
 * Threads: confined to the paced thread; the backend must compute on that thread. */
#ifndef HSP_PACE_H
#define HSP_PACE_H
#include <stdatomic.h>
#include <stdint.h>

#define HSP_PACE_LAG_NS INT64_C(50000000)

struct hsp_pace {
    double speed;           /* of a core; 0: not paced */
    int64_t due_ns;         /* when the work done so far is due; monotonic clock */
    int64_t left_ns;        /* when the last paced stretch ended */
    int64_t cpu_ns;         /* thread's processor time at the last instruction */
    int64_t slept_ns;       /* in total */
    const atomic_int *stop; /* not 0: sleep no more */
};

int64_t hsp_clock_ns(void); /* monotonic */

void hsp_pace_init(struct hsp_pace *p, double speed, const atomic_int *stop);
void hsp_pace_enter(struct hsp_pace *p); /* a paced stretch begins */
void hsp_pace_done(struct hsp_pace *p);  /* an instruction is done: sleep until it is due */
void hsp_pace_leave(struct hsp_pace *p); /* the stretch ends */

#endif
