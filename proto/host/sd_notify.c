/* Sends one datagram and never waits: sd_notify(3) of libsystemd blocks while the queue of the
 * manager is full. A blocked loop would miss its beats. */
#include "proto/host/sd_notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/str.h"
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

/* 0 or a negative errno. */
static int send_notice(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (path == NULL || path[0] == 0) {
        return 0;
    }
    size_t n = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || n > sizeof sa.sun_path) {
        return -EINVAL;
    }
    memcpy(sa.sun_path, path, n);
    if (path[0] == '@') {
        sa.sun_path[0] = 0; /* abstract name */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    ssize_t k = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&sa,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    int r = k < 0 ? -errno : 0;
    (void)close(fd); /* the sent datagram is in the manager's queue */
    return r;
}

/* Returns true if two lines are of one kind. READY, RELOADING and STOPPING are one kind: the state.
 */
static bool same_kind(const char *a, const char *b)
{
    static const char *const state[] = {"READY=", "RELOADING=", "STOPPING="};
    bool a_state = false, b_state = false;
    for (size_t i = 0; i < sizeof state / sizeof state[0]; i++) {
        a_state |= strncmp(a, state[i], strlen(state[i])) == 0;
        b_state |= strncmp(b, state[i], strlen(state[i])) == 0;
    }
    size_t n = strcspn(a, "=\n");
    return (a_state && b_state) || (n == strcspn(b, "=\n") && strncmp(a, b, n) == 0);
}

static bool says(const char *text, const char *line)
{
    for (const char *l = text; *l != 0; l += strcspn(l, "\n"), l += *l == '\n') {
        if (same_kind(l, line)) {
            return true;
        }
    }
    return false;
}

/* Appends to @text, in @size bytes, the lines of @owed that it does not supersede and has room
 * for. */
static void add_owed(char *text, size_t size, const char *owed)
{
    size_t len = strlen(text), n;
    for (const char *l = owed; *l != 0; l += n, l += *l == '\n') {
        n = strcspn(l, "\n");
        if (!says(text, l) && len + 1 + n < size) {
            text[len] = '\n';
            memcpy(text + len + 1, l, n);
            len += 1 + n;
            text[len] = 0;
        }
    }
}

enum hsp_status hsp_sd_notify(struct hsp_notices *n, struct hsp_err *err, const char *fmt, ...)
{
    char text[sizeof n->owed];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_owed(text, sizeof text, n->owed);
    int r = send_notice(text);
    if (r != 0) {
        memcpy(n->owed, text, sizeof text);
        return hsp_err_set(err, HSP_EIO, -r, "notice to the service manager");
    }
    n->owed[0] = 0;
    return HSP_OK;
}

#ifdef HAVE_SYSTEMD

static uint64_t watchdog_usec(void)
{
    uint64_t usec = 0;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}

#else

static uint64_t watchdog_usec(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t v = 0, p = 0;
    if (usec == NULL || !hsp_parse_u64(usec, &v)) {
        return 0;
    }
    if (pid != NULL && (!hsp_parse_u64(pid, &p) || p != (uint64_t)getpid())) {
        return 0; /* meant for another process */
    }
    return v;
}

#endif

uint64_t hsp_sd_watchdog_ms(void)
{
    return watchdog_usec() / 2000;
}
