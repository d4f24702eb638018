#include "worker/exec/pace.h"

#include <time.h>

#define NS       INT64_C(1000000000)
#define SLICE_NS (NS / 50) /* longest sleep between two checks of stop */

static int64_t read_clock(clockid_t id)
{
    struct timespec t = {0};
    (void)clock_gettime(id, &t); /* cannot fail for these clocks */
    return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

int64_t hsp_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void hsp_pace_init(struct hsp_pace *p, double speed, const atomic_int *stop)
{
    *p = (struct hsp_pace){.speed = speed, .stop = stop};
    p->due_ns = p->left_ns = hsp_clock_ns();
}

void hsp_pace_enter(struct hsp_pace *p)
{
    if (p->speed > 0.0) {
        p->due_ns += hsp_clock_ns() - p->left_ns;
        p->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    }
}

void hsp_pace_leave(struct hsp_pace *p)
{
    if (p->speed > 0.0) {
        p->left_ns = hsp_clock_ns();
    }
}

void hsp_pace_done(struct hsp_pace *p)
{
    if (p->speed <= 0.0) {
        return;
    }
    int64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID), now = hsp_clock_ns();
    p->due_ns += (int64_t)((double)(cpu - p->cpu_ns) / p->speed);
    p->cpu_ns = cpu;
    if (now - p->due_ns > HSP_PACE_LAG_NS) {
        p->due_ns = now - HSP_PACE_LAG_NS;
    }
    while (now < p->due_ns && atomic_load(p->stop) == 0) {
        int64_t until = p->due_ns - now > SLICE_NS ? now + SLICE_NS : p->due_ns;
        struct timespec t = {.tv_sec = until / NS, .tv_nsec = until % NS};
        /* the loop sleeps again if a signal ended the sleep */
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        int64_t woke = hsp_clock_ns();
        p->slept_ns += woke - now;
        now = woke;
    }
}
