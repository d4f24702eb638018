#include "worker/executor/executor_args.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/host/open_files_limit.h"

enum {
    FD,
    DEVICE,
    NODE,
    STATE_DIR,
    LISTEN,
    ADVERTISE,
    SPEED,
    MEMORY,
    THREADS,
    BEAT,
    AUDIT,
    KILL,
    BARE,
    TRANSPORT,
    GPU,
    NCCL,
    LEVEL
};

static const struct option OPTIONS[] = {{"executor", required_argument, NULL, FD},
                                        {"device", required_argument, NULL, DEVICE},
                                        {"node", required_argument, NULL, NODE},
                                        {"state-dir", required_argument, NULL, STATE_DIR},
                                        {"listen", required_argument, NULL, LISTEN},
                                        {"advertise", required_argument, NULL, ADVERTISE},
                                        {"speed", required_argument, NULL, SPEED},
                                        {"memory", required_argument, NULL, MEMORY},
                                        {"threads", required_argument, NULL, THREADS},
                                        {"heartbeat-ms", required_argument, NULL, BEAT},
                                        {"audit", required_argument, NULL, AUDIT},
                                        {"kill-points", required_argument, NULL, KILL},
                                        {"unprotected", required_argument, NULL, BARE},
                                        {"transport", required_argument, NULL, TRANSPORT},
                                        {"gpu", required_argument, NULL, GPU},
                                        {"nccl-settings", required_argument, NULL, NCCL},
                                        {"log-level", required_argument, NULL, LEVEL},
                                        {NULL, 0, NULL, 0}};
/* Limit of open files, equal to that in the systemd unit. Files are needed for three meshes of each
 * epoch, two epochs in a switch, segments, and data files. */
#define FILES 262144
#define OPTIONAL                                                                           \
    ((1u << ADVERTISE) | (1u << AUDIT) | (1u << KILL) | (1u << BARE) | (1u << TRANSPORT) | \
     (1u << GPU) | (1u << NCCL))

static bool transport(const char *s, enum hsp_mesh_transport *ret)
{
    *ret = strcmp(s, "tcp") == 0   ? HSP_MESH_TCP
           : strcmp(s, "shm") == 0 ? HSP_MESH_SHM
                                   : HSP_MESH_AUTO;
    return *ret != HSP_MESH_AUTO || strcmp(s, "auto") == 0;
}

static bool number(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
    return hsp_parse_u64(s, ret) && *ret >= min && *ret <= max;
}

/* Stores the value @s of option @which. Returns false if the value is wrong. */
static bool take(int which, const char *s, struct hsp_executor_opts *o, enum hsp_log_level *level)
{
    uint64_t n = 0;
    bool ok = true;
    switch (which) {
    case FD:
        ok = number(s, 3, INT32_MAX, &n);
        o->fd = (int)n;
        break;
    case DEVICE:
        ok = number(s, 0, UINT16_MAX, &n);
        o->device = (uint32_t)n;
        break;
    case NODE:
        ok = hsp_name_valid(s);
        o->node = s;
        break;
    case STATE_DIR: o->state_dir = s; break;
    case LISTEN: o->listen = s; break;
    case ADVERTISE: o->advertise = s; break;
    case SPEED: ok = hsp_parse_f64(s, &o->speed) && o->speed > 0 && o->speed <= 1; break;
    case MEMORY: ok = number(s, 1, UINT64_MAX, &o->mem_bytes); break;
    case THREADS:
        ok = number(s, 1, 1024, &n);
        o->threads = (uint32_t)n;
        break;
    case BEAT:
        ok = number(s, 1, 3600000, &n);
        o->heartbeat_ms = (uint32_t)n;
        break;
    case AUDIT: o->audit_dir = s; break;
    case KILL: o->kill_dir = s; break;
    case BARE: o->bare_file = s; break;
    case TRANSPORT: ok = transport(s, &o->transport); break;
    case GPU:
        ok = number(s, 0, 255, &n);
        o->gpu_index = (int)n;
        break;
    case NCCL: ok = o->nccl_unknown = strcmp(s, "unknown") == 0; break;
    default: ok = hsp_log_parse_level(s, level); break;
    }
    return ok;
}

enum hsp_status hsp_execargs_parse(int argc, char **argv, struct hsp_executor_opts *ret,
                                   enum hsp_log_level *ret_level, struct hsp_err *err)
{
    struct hsp_executor_opts o = {.fd = -1, .gpu_index = -1};
    enum hsp_log_level level = HSP_LOG_INFO;
    unsigned seen = OPTIONAL;
    int c;
    optind = 0; /* begin again: the caller may have called getopt before */
    opterr = 0;
    while ((c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (c < 0 || c > LEVEL) {
            return hsp_err_set(err, HSP_EINVAL, 0, "%s is no option of an executor",
                               optind > 0 && optind <= argc ? argv[optind - 1] : "?");
        }
        if (!take(c, optarg, &o, &level)) {
            return hsp_err_set(err, HSP_EINVAL, 0, "--%s %s is out of range", OPTIONS[c].name,
                               optarg);
        }
        seen |= 1u << c;
    }
    for (unsigned i = 0; i < HSP_ARRAY_LEN(OPTIONS) - 1; i++) {
        if ((seen & (1u << i)) == 0) {
            return hsp_err_set(err, HSP_EINVAL, 0, "--%s is missing", OPTIONS[i].name);
        }
    }
    *ret = o;
    *ret_level = level;
    return HSP_OK;
}

int hsp_execargs_main(int argc, char **argv)
{
    struct hsp_executor_opts o;
    struct hsp_err err = {0};
    enum hsp_log_level level;
    if (hsp_execargs_parse(argc, argv, &o, &level, &err) != HSP_OK ||
        fcntl(o.fd, F_SETFD, FD_CLOEXEC) != 0) {
        (void)fprintf(stderr, "hspmd-worker: executor: %s\n",
                      err.msg[0] != '\0' ? err.msg : "its connection is not open");
        return 2;
    }
    (void)hsp_nofile_raise(FILES);
    (void)signal(SIGPIPE, SIG_IGN);         /* a write to a closed peer returns an error */
    (void)prctl(PR_SET_NAME, "hspmd-exec"); /* else ps shows "exe" */
    o.log = hsp_log_new(STDERR_FILENO, level);
    hsp_log_on_assert(o.log);
    o.nccl_log = o.gpu_index >= 0 ? hsp_nccllog_open() : NULL; /* while there is one thread */
    int rc = hsp_executor_main(&o);
    (void)hsp_log_free(o.log);
    return rc;
}
