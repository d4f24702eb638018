/* Outlasts a restart of hspmdd, for the commands that wait for its messages (wait, events -f).
 *
 * Training goes on while hspmdd is away, so these commands call it again each second until it is
 * back. Example: hspmdd is killed, and a follower of events has seen number 41. One line on
 * standard error says so; the follower then asks for the events after 41.
 *
 * Purity: shell (the clock, a pause, a line). */
#ifndef HSP_AWAY_H
#define HSP_AWAY_H
#include "daemon/ctl/command.h"
#include "proto/base/err.h"

#define HSP_AWAY_MAX_MS 300000u /* as long as a host takes to boot */

struct hsp_away {        /* times are those of hsp_away_clock_ms */
    const char *command; /* "wait goes on": for the line */
    uint64_t until_ms;   /* the command calls no more; 0: no limit */
    uint64_t since_ms;   /* hspmdd was here last; 0: it has not gone */
};

/* Whether a call that ended with @st found hspmdd gone, and it may come back. @there: it had taken
 * the call. */
bool hsp_away_is(const struct hsp_away *a, enum hsp_status st, bool there);
/* The last call ended with @st and @err. True, behind a line the first time and a pause of a
 * second, cut short by a signal: call again. False: hspmdd is not away, or for too long. */
bool hsp_away_again(struct hsp_ctl *ctl, struct hsp_away *a, enum hsp_status st, bool there,
                    const struct hsp_err *err);
/* Milliseconds, monotonic. */
uint64_t hsp_away_clock_ms(void);

#endif
