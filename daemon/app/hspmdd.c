/* hspmdd: the training coordinator. Options, configuration, signals; the work is in app.c. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/app/app.h"
#include "proto/host/fileio.h"
#include "proto/host/sdnotify.h"
#include "proto/host/uvsignal.h"
#include "proto/net/addr.h"

#define DEFAULT_CONFIG HSP_SYSCONFDIR "/hspmd/hspmdd.yaml"
#define CONFIG_MAX     (1u << 20)
#define POOL_THREADS   "8" /* planning runs, the store, requests: none may starve the others */
#define EXIT_USAGE     2
#define EXIT_CONFIG    6 /* LSB: not configured */

struct options {
    const char *config; /* NULL: the default, which may be missing */
    bool check, print;
};

struct program {
    struct hsp_arena *arena;
    struct hsp_log *log;
    struct hsp_daemon_config cfg;
    struct hsp_net_keys keys;
    uv_loop_t loop;
    struct hsp_signals signals;
    struct hsp_app *app;
};

static void usage(FILE *out)
{
    (void)fputs(
        "Usage: hspmdd [--config FILE] [--check-config | --print-config]\n\n"
        "The coordinator of hspmd: plans training jobs over the devices of all connected\n"
        "workers and keeps them going when workers come and go.\n\n"
        "  -c, --config FILE   configuration [" DEFAULT_CONFIG "]\n"
        "      --check-config  check it and end: 0 good, 6 not\n"
        "      --print-config  print it with every default and end\n"
        "  -V, --version       print the version\n"
        "  -h, --help          print this\n\n"
        "SIGTERM and SIGINT end it; training goes on. SIGUSR1 writes its state to the log.\n",
        out);
}

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"check-config", no_argument, NULL, 'k'},
        {"print-config", no_argument, NULL, 'p'}, {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int opt;
    while ((opt = getopt_long(argc, argv, "c:Vh", longs, NULL)) != -1) {
        switch (opt) {
        case 'c': ret->config = optarg; break;
        case 'k': ret->check = true; break;
        case 'p': ret->print = true; break;
        case 'V': (void)puts("hspmdd " PACKAGE_VERSION); return EXIT_SUCCESS;
        case 'h': usage(stdout); return EXIT_SUCCESS;
        default: (void)fputs("hspmdd: see hspmdd --help\n", stderr); return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "hspmdd: unexpected argument \"%s\"; see hspmdd --help\n",
                      argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

/* Beyond loopback a key is needed; said here and not only when the listener is made, so that
 * --check-config finds it. */
static enum hsp_status check_listen(const struct program *p, struct hsp_err *err)
{
    struct hsp_addr addr;
    if (p->cfg.listen == NULL || p->cfg.listen[0] == '\0') {
        return HSP_OK;
    }
    enum hsp_status st = hsp_addr_parse(p->cfg.listen, HSP_PORT, &addr, err);
    if (st != HSP_OK) {
        return hsp_err_wrap(err, "listen");
    }
    if (!addr.local && !hsp_addr_is_loopback(&addr) && !p->keys.have_worker) {
        return hsp_err_set(
            err, HSP_EPERM, 0,
            "listen: %s is beyond loopback and there is no worker_key; make one with "
            "openssl rand -hex 32",
            p->cfg.listen);
    }
    return HSP_OK;
}

static enum hsp_status load_config(struct program *p, const struct options *o, struct hsp_err *err)
{
    uint8_t *text = NULL;
    size_t len = 0;
    const char *path = o->config != NULL ? o->config : DEFAULT_CONFIG;
    enum hsp_status st = hsp_file_read(path, CONFIG_MAX, &text, &len, err);
    if (st == HSP_ENOENT && o->config == NULL) {
        st = HSP_OK; /* defaults */
    }
    if (st == HSP_OK) {
        st = hsp_daemon_config_parse(text != NULL ? (const char *)text : "", len, path, p->arena,
                                     &p->cfg, err);
    }
    free(text);
    if (st == HSP_OK) {
        st = hsp_net_keys_load(p->cfg.worker_key, p->cfg.admin_key, &p->keys, err);
    }
    if (st == HSP_OK) {
        st = check_listen(p, err);
    }
    return st;
}

static void print_config(const struct program *p)
{
    struct hsp_buf b;
    hsp_buf_init(&b, CONFIG_MAX);
    hsp_daemon_config_print(&p->cfg, true, &b);
    (void)fputs(hsp_buf_cstr(&b), stdout);
    hsp_buf_fini(&b);
}

/* ---- running ---- */

static void on_app_closed(struct hsp_app *a)
{
    uv_stop(a->loop);
}

static void on_signal(void *ctx, int signum)
{
    struct program *p = ctx;
    switch (signum) {
    case SIGTERM:
    case SIGINT:
        hsp_log(p->log, HSP_LOG_NOTICE, "app", "%s: ending, training goes on", strsignal(signum));
        (void)hsp_sd_notify(NULL, "STOPPING=1"); /* only a courtesy */
        hsp_app_close(p->app, on_app_closed);
        break;
    case SIGUSR1: hsp_app_dump(p->app); break;
    default:
        hsp_log(p->log, HSP_LOG_NOTICE, "app",
                "the configuration is read at the start only: restart to apply changes; training "
                "goes on meanwhile");
        break;
    }
}

static void drain_loop(struct program *p)
{
    while (uv_run(&p->loop, UV_RUN_NOWAIT) != 0 || uv_loop_alive(&p->loop)) {
        (void)uv_run(&p->loop, UV_RUN_ONCE); /* closing handles and works that end */
    }
}

/* After a failed start or write: whatever the loop still has is let go. */
static int give_up(struct program *p)
{
    if (p->app != NULL) {
        hsp_app_close(p->app, on_app_closed);
    }
    drain_loop(p);
    return EXIT_FAILURE;
}

static int serve(struct program *p)
{
    struct hsp_err err = {0};
    enum hsp_status st = hsp_signals_open(&p->signals, &p->loop, on_signal, p, &err);
    if (st == HSP_OK) {
        st = hsp_app_open(&p->loop, &p->cfg, &p->keys, p->log, &p->app, &err);
    }
    if (st != HSP_OK) {
        hsp_log(p->log, HSP_LOG_ERROR, "app", "cannot start: %s", err.msg);
        hsp_signals_close(&p->signals, NULL);
        return give_up(p);
    }
    hsp_log(p->log, HSP_LOG_NOTICE, "app", "hspmdd " PACKAGE_VERSION " is ready, state in %s",
            p->cfg.state_dir);
    (void)hsp_sd_notify(NULL, "READY=1\nSTATUS=ready"); /* without a listener nobody waits for it */
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    hsp_signals_close(&p->signals, NULL);
    if (p->app->failed) {
        return give_up(p);
    }
    drain_loop(p);
    return EXIT_SUCCESS;
}

static int run(struct program *p)
{
    if (uv_loop_init(&p->loop) != 0) {
        (void)fputs("hspmdd: no event loop\n", stderr);
        return EXIT_FAILURE;
    }
    int rc = serve(p);
    p->app = hsp_app_free(p->app);
    if (uv_loop_close(&p->loop) != 0) {
        hsp_log(p->log, HSP_LOG_WARN, "app", "handles were left open");
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct hsp_err err = {0};
    int rc = parse_options(argc, argv, &o);
    if (rc >= 0) {
        return rc;
    }
    struct program p = {.arena = hsp_arena_new((size_t)64 << 20)};
    if (p.arena == NULL) {
        (void)fputs("hspmdd: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    if (load_config(&p, &o, &err) != HSP_OK) {
        (void)fprintf(stderr, "hspmdd: %s\n", err.msg);
        rc = EXIT_CONFIG;
    } else if (o.print) {
        print_config(&p);
        rc = EXIT_SUCCESS;
    } else if (o.check) {
        rc = EXIT_SUCCESS;
    } else {
        (void)setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 0); /* no thread runs yet */
        p.log = hsp_log_new(STDERR_FILENO, (enum hsp_log_level)p.cfg.log_level);
        rc = p.log != NULL ? run(&p) : EXIT_FAILURE;
        p.log = hsp_log_free(p.log);
    }
    p.arena = hsp_arena_free(p.arena);
    return rc;
}
