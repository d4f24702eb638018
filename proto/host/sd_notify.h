/* Sends notices to the service manager (sd_notify(3)): readiness, status, watchdog.
 *
 * Purity:  shell (one datagram; reads NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID).
 * Threads: the loop thread.
 *
 * Nothing here waits for the manager. A notice that the manager has not taken is kept, and sent
 * with the next one: a program sends one with each beat. WATCHDOG_USEC is read by libsystemd where
 * it was found at configure time. */
#ifndef HSP_SD_NOTIFY_H
#define HSP_SD_NOTIFY_H

#include <stdint.h>

#include "proto/base/err.h"

struct hsp_notices {
    char owed[1024]; /* lines not taken yet; begins empty. A status line people read fits */
};

/* Sends "READY=1", "STATUS=...", several lines separated by newlines, and the kept notices: of
 * READY, RELOADING and STOPPING only the newest, and the newest STATUS. Longer text is cut. HSP_OK
 * also when there is no service manager. HSP_EIO: the manager does not take the notice now, or
 * nobody listens; the notice is kept. */
enum hsp_status hsp_sd_notify(struct hsp_notices *n, struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How often to send WATCHDOG=1: half the interval the manager demands, in milliseconds; 0: never.
 */
uint64_t hsp_sd_watchdog_ms(void);

#endif
