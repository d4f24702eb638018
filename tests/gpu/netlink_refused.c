/* Shows how NCCL starts in a service whose unit refuses the address family AF_NETLINK.
 *
 * A unit with RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX lets socket() fail for AF_NETLINK.
 * getifaddrs() asks the kernel by such a socket, and ncclGetUniqueId() calls getifaddrs() for its
 * bootstrap. Two child processes make both calls: one as it is, one under a seccomp filter like
 * that of the unit. Needs no GPU.
 *
 * Prints four lines behind the version of NCCL:
 *   allowed getifaddrs: ok
 *   refused ncclGetUniqueId: NCCL: unhandled system error: Call to getifaddrs failed: ...
 * Exit status: 0 both calls end well where AF_NETLINK is allowed, 1 one does not, 77 there is no
 * NCCL, or the kernel takes no filter. */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "worker/comm/nccl/nccl_lib.h"

enum { WORKS = 0, FAILS = 1, MISSING = 77 };

/* socket(AF_NETLINK, ...) fails in this process from now on. */
static int refuse_netlink(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = HSP_ARRAY_LEN(code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
               ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
               : -1;
}

static bool list_interfaces(const char *family)
{
    struct ifaddrs *all = NULL;
    int rc = getifaddrs(&all);
    (void)printf("%s getifaddrs: %s\n", family, rc == 0 ? "ok" : strerror(errno));
    if (rc == 0) {
        freeifaddrs(all);
    }
    return rc == 0;
}

static bool make_id(const char *family, const struct hsp_nccl_lib *nccl)
{
    struct nccl_id id;
    struct hsp_err err = {0};
    enum nccl_result r = nccl->GetUniqueId(&id);
    if (r != NCCL_SUCCESS) {
        (void)hsp_nccl_failed(nccl, NULL, r, "bootstrap", &err);
    }
    (void)printf("%s ncclGetUniqueId: %s\n", family, r == NCCL_SUCCESS ? "ok" : err.msg);
    return r == NCCL_SUCCESS;
}

/* The child's exit status. */
static int both_calls(const struct hsp_nccl_lib *nccl, bool refused)
{
    const char *family = refused ? "refused" : "allowed";
    if (refused && refuse_netlink() != 0) {
        (void)printf("needs a kernel that takes seccomp filters: %s\n", strerror(errno));
        (void)fflush(stdout);
        return MISSING;
    }
    bool listed = list_interfaces(family), made = make_id(family, nccl);
    (void)fflush(stdout);
    return refused || (listed && made) ? WORKS : FAILS;
}

static int in_a_child(const struct hsp_nccl_lib *nccl, bool refused)
{
    int status = 0;
    (void)fflush(stdout); /* else both would print it */
    pid_t child = fork();
    if (child == 0) {
        _exit(both_calls(nccl, refused));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        (void)fprintf(stderr, "netlink_refused: no child process: %s\n", strerror(errno));
        return FAILS;
    }
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr, "netlink_refused: the calls ended with signal %d\n",
                      WTERMSIG(status));
        return FAILS;
    }
    return WEXITSTATUS(status);
}

int main(void)
{
    struct hsp_nccl_lib nccl;
    struct hsp_err err = {0};
    if (hsp_nccl_lib_open(NULL, &nccl, &err) != HSP_OK) {
        (void)fprintf(stderr, "netlink_refused: %s\n", err.msg);
        return MISSING;
    }
    (void)printf("NCCL %d.%d.%d\n", nccl.version / 10000, nccl.version / 100 % 100,
                 nccl.version % 100);
    int allowed = in_a_child(&nccl, false), refused = in_a_child(&nccl, true);
    hsp_nccl_lib_close(&nccl);
    return allowed != WORKS ? allowed : refused;
}
