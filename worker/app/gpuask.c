/* See gpuask.h. */
#include "worker/app/gpuask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/app/gpuanswer.h"
#include "worker/app/probedevice.h"
#include "worker/app/rundevice.h"

/* ---- the process that asks the GPU ---- */

static enum hsp_status look(int index, struct hsp_device_info *d, struct hsp_probe *p,
                            struct hsp_err *err)
{
    const struct hsp_device_plugin *plugin = NULL;
    struct hsp_backend *b = NULL;
    enum hsp_status st = hsp_backend_device_open(index, NULL, &b, err);
    if (st == HSP_OK) {
        st = hsp_plugin_load(NULL, &plugin, err);
    }
    if (st == HSP_OK) { /* with the context open, as an executor's will be */
        st = plugin->describe(index, d, err);
    }
    if (st == HSP_OK) {
        st = hsp_probe_backend(b, HSP_PROBE_BYTES, p, err);
    }
    if (b != NULL) {
        b->close(b);
    }
    return st;
}

int hsp_gpu_ask_main(const char *device)
{
    struct hsp_run_device d;
    struct hsp_device_info info = {.sm = 0};
    struct hsp_probe can;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_run_device_parse(device, &d, &err);
    if (st == HSP_OK && (!d.gpu || d.index < 0)) {
        st = hsp_err_set(&err, HSP_EINVAL, 0, "%s is no single GPU: cuda:N", device);
    }
    if (st == HSP_OK) {
        st = look(d.index, &info, &can, &err);
    }
    if (st != HSP_OK) {
        (void)fprintf(stderr, "hspmd-worker: %s\n", err.msg);
        return st == HSP_EINVAL ? 2 : 1;
    }
    struct hsp_buf out;
    hsp_buf_init(&out, HSP_GPU_ANSWER_MAX);
    hsp_gpu_answer_print(&info, &can, &out);
    bool ok = hsp_buf_status(&out) == HSP_OK && fwrite(out.data, 1, out.len, stdout) == out.len &&
              fflush(stdout) == 0;
    hsp_buf_fini(&out);
    return ok ? 0 : 1;
}

/* ---- the process that wants to know ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pid_t start(const char *program, uint32_t index, int to)
{
    char device[32];
    (void)snprintf(device, sizeof(device), "cuda:%" PRIu32, index);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0) {
            (void)execl(program, "hspmd-worker", "--probe-device", device, (char *)NULL);
        }
        _exit(127);
    }
    return pid;
}

/* What comes until its end. HSP_ETIMEDOUT; HSP_ELIMIT: too much. */
static enum hsp_status collect(int from, int64_t end_ms, char *ret, size_t size, size_t *ret_len)
{
    for (size_t n = 0;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        int64_t left = end_ms - now_ms();
        int k = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (k == 0) {
            return HSP_ETIMEDOUT;
        }
        ssize_t got = k > 0 ? read(from, ret + n, size - n) : 0;
        if (k > 0 && got == 0) {
            *ret_len = n;
            return HSP_OK;
        }
        n += got > 0 ? (size_t)got : 0;
        if (n == size) {
            return HSP_ELIMIT;
        }
    }
}

/* The last line of what it said, without its name; libraries may have said something before. */
static const char *last_line(char *text, size_t len)
{
    static const char name[] = "hspmd-worker: ";
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    text[len] = '\0';
    hsp_utf8_mend(text);
    char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    return strncmp(line, name, sizeof(name) - 1) == 0 ? line + sizeof(name) - 1 : line;
}

enum hsp_status hsp_gpu_ask_by(const char *program, uint32_t index, uint32_t within_ms,
                               struct hsp_device_info *ret, struct hsp_probe *ret_can,
                               struct hsp_err *err)
{
    char text[HSP_GPU_ANSWER_MAX + 1];
    size_t len = 0;
    int end[2], status = 0;
    if (pipe2(end, O_CLOEXEC) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "no pipe to ask GPU %" PRIu32, index);
    }
    pid_t pid = start(program, index, end[1]);
    int why = errno;
    (void)close(end[1]);
    enum hsp_status st =
        pid > 0 ? collect(end[0], now_ms() + within_ms, text, HSP_GPU_ANSWER_MAX, &len) : HSP_EIO;
    (void)close(end[0]);
    if (pid > 0 && st != HSP_OK) {
        (void)kill(pid, SIGKILL);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid < 0) {
        return hsp_err_set(err, HSP_EIO, why, "no process to ask GPU %" PRIu32, index);
    }
    if (st != HSP_OK) {
        return hsp_err_set(err, st, 0,
                           st == HSP_ETIMEDOUT ? "GPU %" PRIu32 " has not answered within %u ms"
                                               : "GPU %" PRIu32
                                                 " was answered for at too great length, %u ms",
                           index, within_ms);
    }
    const char *said = last_line(text, len);
    bool died = !WIFEXITED(status);
    if ((died || WEXITSTATUS(status) != 0) && (died || said[0] == '\0')) {
        return hsp_err_set(err, HSP_ENODEV, 0, "GPU %" PRIu32 ": %s", index,
                           died ? "its process was killed" : "its process ended without a word");
    }
    if (WEXITSTATUS(status) != 0) { /* in its own words */
        return hsp_err_set(err, HSP_ENODEV, 0, "%s", said);
    }
    st = hsp_gpu_answer_parse(said, strlen(said), ret, ret_can, err);
    return st == HSP_OK ? st : hsp_err_wrap(err, "GPU %" PRIu32, index);
}

enum hsp_status hsp_gpu_ask(uint32_t index, struct hsp_device_info *ret, struct hsp_probe *ret_can,
                            struct hsp_err *err)
{
    return hsp_gpu_ask_by("/proc/self/exe", index, HSP_GPU_ASK_MS, ret, ret_can, err);
}
