/* Runs hspmd-worker in the mode that its options ask for. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/str.h"
#include "worker/app/agent_main.h"
#include "worker/executor/executor_args.h"
#include "worker/probe/gpu_probe.h"
#include "worker/run/run_device.h"
#include "worker/run/run_program.h"
#include "worker/run/verify.h"
#include "worker/state/ckpt_verify.h"

enum mode { MODE_NONE, MODE_RUN, MODE_VERIFY, MODE_CHECKPOINT, MODE_PROBE, MODE_AGENT };

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct options {
    enum mode mode;
    struct hsp_run_opts run;
    struct hsp_run_device device; /* of run */
    struct hsp_agent_request agent;
    bool json;
    uint32_t job;
};

/* X(letter, name, argument or "", help) */
#define OPTIONS(X)                                                                               \
    X('c', "config", "FILE", "be the agent of this node, as FILE says")                          \
    X('C', "check-config", "", "with --config: read FILE and end")                               \
    X('P', "print-config", "", "print every key with its value and where it comes from")         \
    X('E', "print-example", "", "print a commented file with every key, to begin with")          \
    X('S', "set", "KEY=VALUE", "a key of the configuration, over file and environment")          \
    X('r', "run", "FILE", "train all ranks of a program file in this process")                   \
    X('v', "verify", "FILE", "compare the sharded program of FILE with the unsharded one")       \
    X('k', "verify-checkpoint", "DIR", "read the checkpoints of a job and compare all hashes")   \
    X('j', "json", "", "with --verify-checkpoint: one JSON object")                              \
    X('J', "job", "ID", "with --verify-checkpoint: only the steps of this job must be good")     \
    X('s', "steps", "N", "stop after N steps (default: as the job says)")                        \
    X('o', "out", "DIR", "write DIR/final and DIR/metrics.jsonl")                                \
    X('m', "metrics", "FILE", "write one line of JSON per step")                                 \
    X('g', "dump-gradients", "FILE", "write the mean gradients of step 0 (safetensors)")         \
    X('d', "device", "NAME", "compute on cpu (default), cuda:N, or cuda: rank k on GPU k")       \
    X('p', "probe-device", "NAME", "measure the GPU cuda:N, or paths between cuda:N,M: as JSON") \
    X('t', "threads", "N", "compute threads of each rank (default: processors / ranks)")         \
    X('q', "quiet", "", "no line per step on standard output")                                   \
    X('h', "help", "", "print this text")                                                        \
    X('V', "version", "", "print the version")

static const struct option LONG[] = {
#define X(letter, name, arg, help) {name, (arg)[0] ? required_argument : no_argument, NULL, letter},
    OPTIONS(X)
#undef X
        {"kill-points", required_argument, NULL, 'K'}, /* for tests: no help names these two */
    {"unprotected", required_argument, NULL, 'U'},
    {NULL, 0, NULL, 0}};

static void print_help(FILE *f)
{
    (void)fprintf(f, "usage: hspmd-worker --config FILE [--set KEY=VALUE]... "
                     "[--check-config|--print-config]\n"
                     "       hspmd-worker --run FILE [OPTION]...\n"
                     "       hspmd-worker --verify FILE [OPTION]...\n"
                     "       hspmd-worker --verify-checkpoint DIR [--json] [--job ID]\n"
                     "       hspmd-worker --probe-device cuda:N\n\n");
#define X(letter, name, arg, help) (void)fprintf(f, "  --%-17s %-9s %s\n", name, arg, help);
    OPTIONS(X)
#undef X
    (void)fputs(
        "\nEnvironment: HSPMD_WORKER_KEY sets a key of the configuration, over the file.\n"
        "Signals to the agent: SIGTERM leaves as planned, a second one ends at once; SIGHUP\n"
        "reads the configuration again; SIGUSR1 writes its state to the log.\n"
        "See hspmd-worker(8), hspmd-worker.yaml(5).\n",
        f);
}

static bool choose(struct options *all, enum mode mode)
{
    if (all->mode != MODE_NONE) {
        (void)fprintf(stderr, "hspmd-worker: one of --config, --run, --verify, --verify-checkpoint "
                              "and --probe-device, once\n");
        return false;
    }
    all->mode = mode;
    return true;
}

/* -s, -t */
static bool take_number(struct hsp_run_opts *o, int c, const char *text)
{
    uint64_t n;
    if (!hsp_parse_u64(text, &n) || n == 0 || (c == 't' && n > 1024)) {
        (void)fprintf(stderr, "hspmd-worker: %s is not a number of %s\n", text,
                      c == 's' ? "steps" : "threads");
        return false;
    }
    if (c == 's') {
        o->steps = n;
    } else {
        o->threads = (int)n;
    }
    return true;
}

static bool take_device(struct options *all, const char *text)
{
    struct hsp_err err = {0};
    if (hsp_run_device_parse(text, &all->device, &err) != HSP_OK) {
        (void)fprintf(stderr, "hspmd-worker: %s\n", err.msg);
        return false;
    }
    all->run.open = hsp_run_device_open;
    all->run.gpu = hsp_run_device_gpu;
    all->run.open_ctx = &all->device;
    return true;
}

static bool take_set(struct hsp_agent_request *o, const char *text)
{
    if (o->n_set == HSP_AGENT_SETS) {
        (void)fprintf(stderr, "hspmd-worker: too many --set; use a file\n");
        return false;
    }
    o->set[o->n_set++] = text;
    return true;
}

static bool take_job(struct options *all, const char *text)
{
    uint64_t id;
    if (!hsp_parse_u64(text, &id) || id == 0 || id > UINT32_MAX) {
        (void)fprintf(stderr, "hspmd-worker: %s is not the number of a job\n", text);
        return false;
    }
    all->job = (uint32_t)id;
    return true;
}

/* Checks that a mode is asked for, and no argument is left. An exit status, or -1 to go on. */
static int check_mode(int argc, char **argv, struct options *all)
{
    if (all->agent.wish != HSP_AGENT_RUN && all->mode == MODE_NONE) {
        all->mode = MODE_AGENT; /* the defaults, without a file */
    }
    if (all->mode == MODE_NONE || optind != argc ||
        (all->agent.wish != HSP_AGENT_RUN && all->mode != MODE_AGENT)) {
        (void)fprintf(stderr, "hspmd-worker: %s%s; see hspmd-worker --help\n",
                      optind != argc
                          ? "unexpected argument "
                          : "--config, --run, --verify, --verify-checkpoint or --probe-device is "
                            "missing",
                      optind != argc ? argv[optind] : "");
        return EXIT_USAGE;
    }
    return -1;
}

/* Reads the options. Returns an exit status to end with at once, or -1 to go on. */
static int read_options(int argc, char **argv, struct options *all)
{
    struct hsp_run_opts *o = &all->run;
    int c;
    while ((c = getopt_long(argc, argv, ":", LONG, NULL)) != -1) {
        switch (c) {
        case 'c':
        case 'r':
        case 'v':
        case 'k':
        case 'p':
            if (!choose(all, c == 'c'   ? MODE_AGENT
                             : c == 'p' ? MODE_PROBE
                             : c == 'r' ? MODE_RUN
                             : c == 'v' ? MODE_VERIFY
                                        : MODE_CHECKPOINT)) {
                return EXIT_USAGE;
            }
            all->agent.config = c == 'c' ? optarg : NULL;
            o->file = optarg;
            break;
        case 'C': all->agent.wish = HSP_AGENT_CHECK_CONFIG; break;
        case 'P': all->agent.wish = HSP_AGENT_PRINT_CONFIG; break;
        case 'E': all->agent.wish = HSP_AGENT_PRINT_EXAMPLE; break;
        case 'S':
            if (!take_set(&all->agent, optarg)) {
                return EXIT_USAGE;
            }
            break;
        case 's':
        case 't':
            if (!take_number(o, c, optarg)) {
                return EXIT_USAGE;
            }
            break;
        case 'd':
            if (!take_device(all, optarg)) {
                return EXIT_USAGE;
            }
            break;
        case 'K': all->agent.kill_dir = optarg; break;
        case 'U': all->agent.bare_file = optarg; break;
        case 'o': o->out = optarg; break;
        case 'm': o->metrics = optarg; break;
        case 'g': o->gradients = optarg; break;
        case 'q': o->quiet = true; break;
        case 'j': all->json = true; break;
        case 'J':
            if (!take_job(all, optarg)) {
                return EXIT_USAGE;
            }
            break;
        case 'h': print_help(stdout); return 0;
        case 'V': (void)printf("hspmd-worker %s\n", PACKAGE_VERSION); return 0;
        default:
            (void)fprintf(stderr, "hspmd-worker: %s '%s'; see hspmd-worker --help\n",
                          c == ':' ? "no value for option" : "unrecognized option",
                          argv[optind - 1]);
            return EXIT_USAGE;
        }
    }
    return check_mode(argc, argv, all);
}

int main(int argc, char **argv)
{
    struct options o = {.agent = {.wish = HSP_AGENT_RUN}};
    struct hsp_err err = {0};
    if (argc > 1 && strcmp(argv[1], "--executor") == 0) {
        return hsp_execargs_main(argc, argv);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of a write, not a death */
    int rc = read_options(argc, argv, &o);
    if (rc >= 0) {
        return rc;
    }
    if (o.mode == MODE_AGENT) {
        return hsp_agent_main(&o.agent);
    }
    if (o.mode == MODE_PROBE) {
        return hsp_gpu_ask_main(o.run.file);
    }
    enum hsp_status st = o.mode == MODE_RUN ? hsp_run_file(&o.run, &err)
                         : o.mode == MODE_VERIFY
                             ? hsp_verify_file(&o.run, &err)
                             : hsp_ckpt_check(o.run.file, o.job, o.json, stdout, &err);
    if (st != HSP_OK) {
        (void)fprintf(stderr, "hspmd-worker: %s\n", err.msg);
        return EXIT_FAILED;
    }
    return 0;
}
