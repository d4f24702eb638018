/* Defines status codes and the error record that travels with them.
 *
 * Role:      every fallible function returns enum hsp_status and fills a struct hsp_err.
 * Purity:    pure.
 * Ownership: the caller owns the record; nothing in it is allocated.
 * Bounds:    the message is cut at sizeof msg - 1 bytes, between two characters. It is UTF-8;
 *            control characters and bytes that are none become "?".
 *
 * Codes are grouped by recovery scope: the request, connection, worker or cluster that ends.
 */
#ifndef HSP_ERR_H
#define HSP_ERR_H

/* X(name, value, text). Positive: not a failure. -1..: the request; -100..: the connection;
 * -200..: the worker; -300..: the cluster. */
#define HSP_STATUS_MAP(X)                             \
    X(HSP_OK, 0, "success")                           \
    X(HSP_AGAIN, 1, "try again later")                \
    X(HSP_ENOMEM, -1, "out of memory")                \
    X(HSP_EINVAL, -2, "invalid argument")             \
    X(HSP_ENOENT, -3, "not found")                    \
    X(HSP_EEXIST, -4, "already exists")               \
    X(HSP_ELIMIT, -5, "limit exceeded")               \
    X(HSP_EPARSE, -6, "malformed text")               \
    X(HSP_EINFEASIBLE, -7, "no feasible solution")    \
    X(HSP_ESTATE, -8, "not possible in this state")   \
    X(HSP_EUNSUPPORTED, -9, "not supported")          \
    X(HSP_ECANCELED, -10, "canceled")                 \
    X(HSP_ETIMEDOUT, -11, "timed out")                \
    X(HSP_EIO, -12, "input or output error")          \
    X(HSP_EPERM, -13, "permission denied")            \
    X(HSP_ENOSPC, -14, "no space left")               \
    X(HSP_EPROTO, -100, "protocol error")             \
    X(HSP_ECLOSED, -101, "connection closed")         \
    X(HSP_EAUTH, -102, "authentication failed")       \
    X(HSP_EVERSION, -103, "version mismatch")         \
    X(HSP_ESTALE, -200, "stale epoch or incarnation") \
    X(HSP_EPEER, -201, "peer lost")                   \
    X(HSP_EDIGEST, -202, "digest mismatch")           \
    X(HSP_ENODEV, -300, "no device")

enum hsp_status {
#define HSP_STATUS_ENUM(name, value, text) name = (value),
    HSP_STATUS_MAP(HSP_STATUS_ENUM)
#undef HSP_STATUS_ENUM
};

struct hsp_err {
    enum hsp_status code; /* HSP_OK when nothing was recorded */
    int sys;              /* errno value, 0 if none */
    char msg[240];        /* lower case, no full stop, no newline */
};

/* Records an error: the formatted message, plus ": <strerror>" when @sys is not 0.
 * @err may be NULL. Returns @code, so that callers write `return hsp_err_set(...)`. */
enum hsp_status hsp_err_set(struct hsp_err *err, enum hsp_status code, int sys, const char *fmt,
                            ...) __attribute__((format(printf, 4, 5)));

/* Records @code with its text, "limit exceeded for <formatted>": a noun. For codes of functions
 * that record nothing. @err may be NULL. Returns @code. */
enum hsp_status hsp_err_about(struct hsp_err *err, enum hsp_status code, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* Records HSP_ENOMEM, "out of memory for <formatted>": the thing to be made. @err may be NULL. */
enum hsp_status hsp_err_nomem(struct hsp_err *err, const char *what, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "<formatted context>: " before the recorded message. @err may be NULL.
 * Returns the recorded code (HSP_EINVAL when @err is NULL). */
enum hsp_status hsp_err_wrap(struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
