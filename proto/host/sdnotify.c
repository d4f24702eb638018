#include "proto/host/sdnotify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#else
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/str.h"
#endif

#define NOTICE_MAX 1024 /* a status line people read */

#ifdef HAVE_SYSTEMD

/* 0 or a negative errno. */
static int send_notice(const char *text)
{
    int r = sd_notify(0, text);
    return r < 0 ? r : 0;
}

static uint64_t watchdog_usec(void)
{
    uint64_t usec = 0;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}

#else

static int send_notice(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (path == NULL || path[0] == 0) {
        return 0;
    }
    size_t n = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof sa.sun_path) {
        return -EINVAL;
    }
    memcpy(sa.sun_path, path, n);
    if (path[0] == '@') {
        sa.sun_path[0] = 0; /* abstract name */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    ssize_t k = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&sa,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    int r = k < 0 ? -errno : 0;
    close(fd);
    return r;
}

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

enum hsp_status hsp_sd_notify(struct hsp_err *err, const char *fmt, ...)
{
    char text[NOTICE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int r = send_notice(text);
    return r == 0 ? HSP_OK : hsp_err_set(err, HSP_EIO, -r, "notice to the service manager");
}

uint64_t hsp_sd_watchdog_ms(void)
{
    return watchdog_usec() / 2000;
}
