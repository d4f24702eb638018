/* Starts executors. Between fork and exec only async-signal-safe calls are made: other threads may
 * have held any lock. */
#include "worker/app/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/executor/executor.h"

#define ARG_MAX_N    40
#define NUMBER_BYTES 32

struct arguments {
    const char *v[ARG_MAX_N];
    unsigned n;
    char number[8][NUMBER_BYTES];
};

static void add(struct arguments *a, const char *option, const char *value)
{
    a->v[a->n++] = option;
    a->v[a->n++] = value;
    a->v[a->n] = NULL;
}

static void build(const struct hsp_spawn_opts *o, int fd, struct arguments *a)
{
    (void)snprintf(a->number[0], NUMBER_BYTES, "%d", fd);
    (void)snprintf(a->number[1], NUMBER_BYTES, "%" PRIu32, o->device);
    (void)snprintf(a->number[2], NUMBER_BYTES, "%.17g", o->speed);
    (void)snprintf(a->number[3], NUMBER_BYTES, "%" PRIu64, o->mem_bytes);
    (void)snprintf(a->number[4], NUMBER_BYTES, "%" PRIu32, o->threads);
    (void)snprintf(a->number[5], NUMBER_BYTES, "%" PRIu32, o->heartbeat_ms);
    (void)snprintf(a->number[6], NUMBER_BYTES, "%d", o->gpu_index);
    a->n = 0;
    a->v[a->n++] = o->name;
    add(a, "--executor", a->number[0]);
    add(a, "--device", a->number[1]);
    add(a, "--node", o->node);
    add(a, "--state-dir", o->state_dir);
    add(a, "--listen", o->listen);
    if (o->advertise != NULL && o->advertise[0] != '\0') {
        add(a, "--advertise", o->advertise);
    }
    if (o->transport != NULL) {
        add(a, "--transport", o->transport);
    }
    if (o->gpu_index >= 0) {
        add(a, "--gpu", a->number[6]);
    }
    if (o->nccl_unknown) {
        add(a, "--nccl-settings", "unknown");
    }
    add(a, "--speed", a->number[2]);
    add(a, "--memory", a->number[3]);
    add(a, "--threads", a->number[4]);
    add(a, "--heartbeat-ms", a->number[5]);
    if (o->audit_dir != NULL && o->audit_dir[0] != '\0') {
        add(a, "--audit", o->audit_dir);
    }
    if (o->kill_dir != NULL) {
        add(a, "--kill-points", o->kill_dir);
    }
    if (o->bare_file != NULL) {
        add(a, "--unprotected", o->bare_file);
    }
    add(a, "--log-level", o->log_level);
}

/* In the child: never returns. */
static void become(const struct hsp_spawn_opts *o, struct arguments *a, pid_t parent, int fd)
{
    struct sigaction dflt = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int s = 1; s < NSIG; s++) {
        (void)sigaction(s, &dflt, NULL); /* KILL, STOP and the C library's own refuse */
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    int null = open("/dev/null", O_RDONLY);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        fcntl(fd, F_SETFD, 0) != 0) {
        _exit(126);
    }
    /* Also descriptors of the agent's parent. An old kernel has no such call: ours are closed on
     * exec anyway. */
    (void)close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0);
    (void)close_range((unsigned)fd + 1, ~0U, 0);
    if (getppid() != parent) {
        _exit(125); /* the agent died before the kernel knew that we shall follow */
    }
    (void)execve(o->exe, (char *const *)(uintptr_t)a->v, o->env != NULL ? o->env : environ);
    _exit(127);
}

enum hsp_status hsp_spawn_executor(const struct hsp_spawn_opts *o, struct hsp_child *ret,
                                   struct hsp_err *err)
{
    int pair[2];
    struct arguments a;
    sigset_t all, before;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "socket pair of executor %" PRIu32, o->device);
    }
    build(o, pair[1], &a);
    pid_t parent = getpid();
    /* No handler of ours may run in the child: it would write into the loop's pipe, which is
     * shared. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become(o, &a, parent, pair[1]);
    }
    int e = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return hsp_err_set(err, HSP_EIO, e, "start executor %" PRIu32, o->device);
    }
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) {
        e = errno; /* cannot be for a socket of ours; the child sees end of file */
        (void)close(pair[0]);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return hsp_err_set(err, HSP_EIO, e, "socket of executor %" PRIu32, o->device);
    }
    *ret = (struct hsp_child){.pid = pid, .fd = pair[0]};
    return HSP_OK;
}

bool hsp_spawn_ended(pid_t pid, char ret_text[HSP_EXIT_TEXT])
{
    int status = 0;
    pid_t r;
    do {
        r = waitpid(pid, &status, WNOHANG);
    } while (r < 0 && errno == EINTR);
    if (r == 0) {
        return false;
    }
    if (r < 0) {
        (void)snprintf(ret_text, HSP_EXIT_TEXT, "gone"); /* somebody else has waited for it */
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(ret_text, HSP_EXIT_TEXT, "signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == HSP_EXIT_DEVICE) {
        (void)snprintf(ret_text, HSP_EXIT_TEXT, "its GPU failed (exit %d)", HSP_EXIT_DEVICE);
    } else {
        (void)snprintf(ret_text, HSP_EXIT_TEXT, "exit %d", WEXITSTATUS(status));
    }
    return true;
}
