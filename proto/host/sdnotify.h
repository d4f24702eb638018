/* Notices to the service manager (sd_notify(3)): readiness, status, watchdog.
 *
 * Purity:  shell (one datagram; reads NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID).
 * Threads: the loop thread.
 * By libsystemd where it was found at configure time, else by the datagram itself. */
#ifndef HSP_SDNOTIFY_H
#define HSP_SDNOTIFY_H

#include <stdint.h>

#include "proto/base/err.h"

/* Sends "READY=1", "STATUS=...", several lines separated by newlines. HSP_OK also when no service
 * manager listens. HSP_EIO: it could not be sent. */
enum hsp_status hsp_sd_notify(struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How often to send WATCHDOG=1: half the interval the manager demands, in milliseconds; 0: never.
 */
uint64_t hsp_sd_watchdog_ms(void);

#endif
