/* Decides whether hspmdd is away after a failed call, and pauses before the next one. */
#include "daemon/ctl/away.h"

#include <stdio.h>
#include <time.h>

uint64_t hsp_away_clock_ms(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* While hspmdd begins, its socket may not be open to all yet. */
bool hsp_away_is(const struct hsp_away *a, enum hsp_status st, bool there)
{
    const bool before = a->since_ms != 0;
    return st == HSP_ECLOSED ? there || before : before && !there && st == HSP_EPERM;
}

bool hsp_away_again(struct hsp_ctl *ctl, struct hsp_away *a, enum hsp_status st, bool there,
                    const struct hsp_err *err)
{
    const struct timespec pause = {.tv_sec = 1};
    const uint64_t now = hsp_away_clock_ms();
    const bool first = a->since_ms == 0;
    if (!hsp_away_is(a, st, there)) {
        return false;
    }
    a->since_ms = there ? now : a->since_ms;
    if (now - a->since_ms >= HSP_AWAY_MAX_MS || (a->until_ms != 0 && now >= a->until_ms)) {
        return false;
    }
    if (first) {
        (void)fprintf(ctl->msg,
                      "hspmdctl: %s; training continues without hspmdd, and %s if hspmdd is back "
                      "within %u minutes\n",
                      err->msg, a->command, HSP_AWAY_MAX_MS / 60000);
        (void)fflush(ctl->msg); /* shown while we wait */
    }
    (void)nanosleep(&pause, NULL);
    return true;
}
