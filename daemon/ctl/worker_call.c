/* Finds and starts hspmd-worker, and waits for its end. */
#include "daemon/ctl/worker_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM  "hspmd-worker"
#define MAX_ARGS 16

extern char **environ;

/* The path to run; PROGRAM itself: look in PATH. */
static void find_program(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash != NULL) {
        *slash = '\0';
        int len = snprintf(out, PATH_MAX, "%s/%s", self, PROGRAM);
        if (len > 0 && len < PATH_MAX && access(out, X_OK) == 0) {
            return;
        }
    }
    (void)snprintf(out, PATH_MAX, "%s/%s", HSP_SBINDIR, PROGRAM);
    if (access(out, X_OK) != 0) {
        (void)snprintf(out, PATH_MAX, "%s", PROGRAM);
    }
}

/* Whether some folder of PATH has PROGRAM. */
static bool in_path(void)
{
    char file[PATH_MAX];
    const char *at = getenv("PATH");
    while (at != NULL) {
        size_t n = strcspn(at, ":");
        int len =
            snprintf(file, sizeof file, "%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? at : ".", PROGRAM);
        if (len > 0 && len < PATH_MAX && access(file, X_OK) == 0) {
            return true;
        }
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
    return false;
}

static enum hsp_status not_here(const char *program, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOENT, 0,
                       "%s is not on this machine: install it, or run this on a worker", program);
}

enum hsp_status hsp_worker_find(struct hsp_err *err)
{
    char program[PATH_MAX];
    find_program(program);
    return strchr(program, '/') != NULL || in_path() ? HSP_OK : not_here(program, err);
}

/* Starts it with its standard output in the pipe whose other end is *ret_fd. */
static enum hsp_status start(const char *const *args, pid_t *ret_pid, int *ret_fd,
                             struct hsp_err *err)
{
    char program[PATH_MAX], *argv[MAX_ARGS + 2] = {program};
    posix_spawn_file_actions_t act;
    int fd[2], rc;
    find_program(program);
    for (int i = 0; i < MAX_ARGS && args[i] != NULL; i++) {
        argv[i + 1] = (char *)(uintptr_t)args[i]; /* posix_spawn does not write to them */
    }
    if (pipe2(fd, O_CLOEXEC) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "pipe");
    }
    rc = posix_spawn_file_actions_init(&act);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&act, fd[1], STDOUT_FILENO);
        rc = rc == 0 ? posix_spawnp(ret_pid, program, &act, NULL, argv, environ) : rc;
        (void)posix_spawn_file_actions_destroy(&act);
    }
    (void)close(fd[1]);
    if (rc != 0) {
        (void)close(fd[0]);
        return rc == ENOENT ? not_here(program, err)
                            : hsp_err_set(err, rc == ENOMEM ? HSP_ENOMEM : HSP_EIO, rc,
                                          "%s cannot be started on this machine", program);
    }
    *ret_fd = fd[0];
    return HSP_OK;
}

enum hsp_status hsp_worker_call(struct hsp_ctl *ctl, const char *const *args, int *ret_code,
                                struct hsp_err *err)
{
    pid_t pid = 0;
    int fd = -1, status = 0;
    char chunk[4096];
    ssize_t n;
    bool written = true;
    enum hsp_status st = start(args, &pid, &fd, err);
    if (st != HSP_OK) {
        return st;
    }
    while ((n = read(fd, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR)) {
        written = n < 0 || (fwrite(chunk, 1, (size_t)n, ctl->out) == (size_t)n &&
                            fflush(ctl->out) == 0 && written);
    }
    (void)close(fd);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return hsp_err_set(err, HSP_EIO, errno, "%s: waiting for its end", PROGRAM);
        }
    }
    if (!written) {
        return hsp_err_set(err, HSP_EIO, 0, "the answer could not be written");
    }
    if (WIFSIGNALED(status)) {
        return hsp_err_set(err, HSP_EIO, 0, "%s was ended by signal %d", PROGRAM, WTERMSIG(status));
    }
    *ret_code = WEXITSTATUS(status);
    return HSP_OK;
}
