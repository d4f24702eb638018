#include "worker/probe/gpu_probe.h"

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
#include "worker/probe/gpu_probe_reply.h"
#include "worker/probe/probe_device.h"

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

/* Both ways, or it is one over the host. */
static enum hsp_status reach(const struct hsp_device_plugin *plugin, int a, int b, bool *ret,
                             struct hsp_err *err)
{
    bool there = false, back = false;
    enum hsp_status st = plugin->reach(a, b, &there, err);
    if (st == HSP_OK) {
        st = plugin->reach(b, a, &back, err);
    }
    *ret = there && back;
    return st;
}

/* Of all pairs of @n opened devices. */
static enum hsp_status look_between(const uint32_t *index, struct hsp_backend *const *b, uint32_t n,
                                    struct hsp_probe_path ret[HSP_NODE_PATHS], struct hsp_err *err)
{
    const struct hsp_device_plugin *plugin = NULL;
    enum hsp_status st = hsp_plugin_load(NULL, &plugin, err);
    for (uint32_t k = 0, at = 0; st == HSP_OK && k < n; k++) {
        for (uint32_t i = 0; st == HSP_OK && i < k; i++, at++) {
            bool direct = false;
            ret[at] = (struct hsp_probe_path){.a = index[i], .b = index[k]};
            st = reach(plugin, (int)index[i], (int)index[k], &direct, err);
            if (st == HSP_OK) {
                st = hsp_probe_between(b[i], b[k], direct, &ret[at], err);
            }
        }
    }
    return st;
}

static enum hsp_status look_all(const uint32_t *index, uint32_t n,
                                struct hsp_probe_path ret[HSP_NODE_PATHS], struct hsp_err *err)
{
    struct hsp_backend *b[HSP_NODE_DEVICES] = {NULL};
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        st = hsp_backend_device_open((int)index[k], NULL, &b[k], err);
    }
    if (st == HSP_OK) {
        st = look_between(index, b, n, ret, err);
    }
    for (uint32_t k = 0; k < n; k++) {
        if (b[k] != NULL) {
            b[k]->close(b[k]);
        }
    }
    return st;
}

/* "cuda:0,2,5": the numbers, which ascend. */
static enum hsp_status read_numbers(const char *text, uint32_t ret[HSP_NODE_DEVICES],
                                    uint32_t *ret_n, struct hsp_err *err)
{
    const char *at = strncmp(text, "cuda:", 5) == 0 ? text + 5 : "";
    bool good = at[0] != '\0';
    for (*ret_n = 0; good && at[0] != '\0'; ++*ret_n) {
        char one[8];
        uint64_t v = 0;
        size_t len = strcspn(at, ",");
        good = *ret_n < HSP_NODE_DEVICES && len < sizeof one &&
               (at[len] == '\0' || at[len + 1] != '\0');
        if (good) {
            (void)snprintf(one, sizeof one, "%.*s", (int)len, at);
            good = hsp_parse_u64(one, &v) && v < 1024 && (*ret_n == 0 || v > ret[*ret_n - 1]);
            ret[*ret_n] = (uint32_t)v;
            at += len + (at[len] == ',');
        }
    }
    return good ? HSP_OK
                : hsp_err_set(err, HSP_EINVAL, 0,
                              "%s is no GPU, and no ascending list of at most %u: cuda:N, "
                              "cuda:N,M",
                              text, HSP_NODE_DEVICES);
}

int hsp_gpu_ask_main(const char *device)
{
    struct hsp_device_info info = {.sm = 0};
    struct hsp_probe can;
    struct hsp_probe_path path[HSP_NODE_PATHS];
    struct hsp_err err = {0};
    uint32_t index[HSP_NODE_DEVICES], n = 0;
    enum hsp_status st = read_numbers(device, index, &n, &err);
    if (st == HSP_OK) {
        st = n == 1 ? look((int)index[0], &info, &can, &err) : look_all(index, n, path, &err);
    }
    if (st != HSP_OK) {
        (void)fprintf(stderr, "hspmd-worker: %s\n", err.msg);
        return st == HSP_EINVAL ? 2 : 1;
    }
    struct hsp_buf out;
    hsp_buf_init(&out, HSP_GPU_ANSWER_MAX);
    if (n == 1) {
        hsp_gpu_answer_print(&info, &can, &out);
    } else {
        hsp_gpu_paths_print(path, n * (n - 1) / 2, &out);
    }
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

static pid_t start(const char *program, const char *device, int to)
{
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

/* Reads all bytes until the end. HSP_ETIMEDOUT; HSP_ELIMIT: too many bytes. */
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

/* Returns the last line of the child process's output, without the prefix "hspmd-worker: ".
 * Libraries may have printed the lines before. */
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

/* Gets the answer of a child process about @device: *ret_said points into @text. @what names the
 * question in messages. */
static enum hsp_status ask(const char *program, const char *device, const char *what,
                           uint32_t within_ms, char text[HSP_GPU_ANSWER_MAX + 1],
                           const char **ret_said, struct hsp_err *err)
{
    size_t len = 0;
    int end[2], status = 0;
    if (pipe2(end, O_CLOEXEC) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "no pipe to ask %s", what);
    }
    pid_t pid = start(program, device, end[1]);
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
        return hsp_err_set(err, HSP_EIO, why, "no process to ask %s", what);
    }
    if (st != HSP_OK) {
        return hsp_err_set(err, st, 0,
                           st == HSP_ETIMEDOUT ? "%s has not answered within %u ms"
                                               : "%s was answered for at too great length, %u ms",
                           what, within_ms);
    }
    const char *said = last_line(text, len);
    bool died = !WIFEXITED(status);
    if ((died || WEXITSTATUS(status) != 0) && (died || said[0] == '\0')) {
        return hsp_err_set(err, HSP_ENODEV, 0, "%s: %s", what,
                           died ? "its process was killed" : "its process ended without an answer");
    }
    if (WEXITSTATUS(status) != 0) { /* in its own words */
        return hsp_err_set(err, HSP_ENODEV, 0, "%s", said);
    }
    *ret_said = said;
    return HSP_OK;
}

enum hsp_status hsp_gpu_ask_by(const char *program, uint32_t index, uint32_t within_ms,
                               struct hsp_device_info *ret, struct hsp_probe *ret_can,
                               struct hsp_err *err)
{
    char text[HSP_GPU_ANSWER_MAX + 1], device[32], what[32];
    const char *said = "";
    (void)snprintf(device, sizeof(device), "cuda:%" PRIu32, index);
    (void)snprintf(what, sizeof(what), "GPU %" PRIu32, index);
    enum hsp_status st = ask(program, device, what, within_ms, text, &said, err);
    if (st != HSP_OK) {
        return st;
    }
    st = hsp_gpu_answer_parse(said, strlen(said), ret, ret_can, err);
    return st == HSP_OK ? st : hsp_err_wrap(err, "%s", what);
}

enum hsp_status hsp_gpu_ask_paths(const char *program, const uint32_t *index, uint32_t n,
                                  uint32_t within_ms, struct hsp_probe_path ret[HSP_NODE_PATHS],
                                  uint32_t *ret_n, struct hsp_err *err)
{
    char text[HSP_GPU_ANSWER_MAX + 1], device[16 + 12 * HSP_NODE_DEVICES] = "cuda:";
    const char *said = "";
    for (uint32_t i = 0; i < n; i++) {
        size_t at = strlen(device);
        (void)snprintf(device + at, sizeof(device) - at, "%s%" PRIu32, i == 0 ? "" : ",", index[i]);
    }
    *ret_n = 0;
    enum hsp_status st = ask(program != NULL ? program : "/proc/self/exe", device,
                             "the paths between GPUs", within_ms, text, &said, err);
    return st == HSP_OK ? hsp_gpu_paths_parse(said, strlen(said), ret, ret_n, err) : st;
}

enum hsp_status hsp_gpu_ask(uint32_t index, struct hsp_device_info *ret, struct hsp_probe *ret_can,
                            struct hsp_err *err)
{
    return hsp_gpu_ask_by("/proc/self/exe", index, HSP_GPU_ASK_MS, ret, ret_can, err);
}
