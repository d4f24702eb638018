#include "tests/lib/dying.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "tests/lib/testlib.h"

enum { TEXT_MAX = 1 << 16, PATIENCE_MS = 20000 };

static void read_back(int fd, char text[TEXT_MAX])
{
    ssize_t n = pread(fd, text, TEXT_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

static void die(void *(*program)(void *), void *arg, const char *line, int fd)
{
    static char text[TEXT_MAX];
    const struct timespec ms = {.tv_nsec = 1000000};
    bool said = false;
    pthread_t thread;
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(fd, STDERR_FILENO);
    if (pthread_create(&thread, NULL, program, arg) != 0) {
        _exit(1);
    }
    for (int i = 0; i < PATIENCE_MS && !said; i++) {
        (void)nanosleep(&ms, NULL);
        read_back(fd, text);
        said = strstr(text, line) != NULL;
    }
    HSP_ASSERT(!said);
}

void hsp_test_dying(void *(*program)(void *), void *arg, const char *line)
{
    static char text[TEXT_MAX];
    int status = 0;
    FILE *f = tmpfile();
    assert_non_null(f);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        die(program, arg, line, fileno(f));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    read_back(fileno(f), text);
    (void)fclose(f);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
        fail_msg("not aborted (wait status %d): %s", status, text);
    }
    const char *at = strstr(text, "assertion failed: !said (");
    at = at != NULL ? strstr(at, "\nthe last lines of the log:\n") : NULL;
    if (at == NULL || strstr(at, line) == NULL) {
        fail_msg("its last lines have no \"%s\": %s", line, text);
    }
}
