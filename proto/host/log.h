/* Writes the log lines of a shell: to stderr or the journal, and to a ring of the last lines.
 *
 * Role:      called by shells only; libraries return errors and facts instead.
 * Purity:    shell (writes to a descriptor, reads the clock).
 * Threads:   any thread; lines are whole.
 * Ownership: one hsp_log per program, passed as an argument; the only global is that of a failing
 *            assertion.
 * Bounds:    a line is cut at HSP_LOG_LINE bytes; the ring holds HSP_LOG_RING lines.
 * Form:      "<5>module: text" when the descriptor is the journal, else
 *            "2026-03-01T12:00:00.123Z notice module: text". An invisible character, which a peer
 *            may have sent, is shown by its code (hsp_str_show): one call is one line.
 */
#ifndef HSP_LOG_H
#define HSP_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define HSP_LOG_LINE 1024
#define HSP_LOG_RING 4096
#define HSP_LOG_LAST 200 /* lines that a failed assertion shows */

enum hsp_log_level {
    HSP_LOG_ERROR,  /* an operation is lost, someone must act */
    HSP_LOG_WARN,   /* degraded, goes on; the text names the replacement */
    HSP_LOG_NOTICE, /* the state of the cluster changed */
    HSP_LOG_INFO,   /* per request */
    HSP_LOG_DEBUG,  /* per object; kept in the ring in any case */
    HSP_LOG_TRACE,  /* per message */
};

struct hsp_logger;

/* @fd: borrowed, usually 2. Lines up to @level are written to it. NULL without memory. */
struct hsp_logger *hsp_log_new(int fd, enum hsp_log_level level);
struct hsp_logger *hsp_log_free(struct hsp_logger *l); /* NULL allowed; returns NULL */

void hsp_log_set_level(struct hsp_logger *l, enum hsp_log_level level);
bool hsp_log_parse_level(const char *s, enum hsp_log_level *ret);
const char *hsp_log_level_name(enum hsp_log_level level);

/* Logs a line. With @l NULL nothing is logged. A failing write is ignored, since there is nowhere
 * to report it. */
void hsp_log(struct hsp_logger *l, enum hsp_log_level level, const char *module, const char *fmt,
             ...) __attribute__((format(printf, 4, 5)));

/* Writes the last @n lines of the ring to @fd, oldest first, with time and level. Waits at most a
 * second for a thread that writes a line; writes nothing when that thread does not end, for it may
 * be the caller itself. */
void hsp_log_dump(struct hsp_logger *l, size_t n, int fd);

/* From now on a failing assertion dumps the last HSP_LOG_LAST lines of @l to where @l writes, until
 * @l is freed. Called once by a program's main. NULL allowed. */
void hsp_log_on_assert(struct hsp_logger *l);

#endif
