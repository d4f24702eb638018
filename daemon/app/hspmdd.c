/* Runs hspmdd, the training coordinator: options, configuration, signals; the work is in app.c. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/app/store/restore.h"
#include "daemon/app/store/state_folder.h"
#include "daemon/app/app.h"
#include "daemon/app/http/httpd.h"
#include "proto/host/file_io.h"
#include "proto/host/sd_notify.h"
#include "proto/host/uv_signal.h"
#include "proto/net/addr.h"

#define DEFAULT_CONFIG HSP_SYSCONFDIR "/hspmd/hspmdd.yaml"
#define CONFIG_MAX     (1u << 20)
#define POOL_THREADS   "8" /* planning runs, the store, requests: none may starve the others */
#define HEAP_PIECE     (128 * 1024)
#define EXIT_USAGE     2
#define EXIT_CONFIG    6 /* LSB: not configured */

enum wish { WISH_SERVE, WISH_CHECK, WISH_PRINT, WISH_EXAMPLE };

struct options {
    const char *config; /* NULL: the default, which may be missing */
    bool init;
    const char *restore; /* borrowed from argv; NULL none */
    enum wish wish;
    size_t n_set; /* of --set, borrowed from argv */
    const char *set[HSP_LAYERS_SETTINGS];
};

struct program {
    const struct options *options;
    struct hsp_arena *arena;
    struct hsp_logger *log;
    struct hsp_daemon_config cfg;
    struct hsp_net_keys keys;
    uv_loop_t loop;
    struct hsp_signals signals;
    struct hsp_app *app;
};

/* X(letter, name, argument or "", help) */
#define OPTIONS(X)                                                                       \
    X('c', "config", "FILE", "configuration [" DEFAULT_CONFIG "]")                       \
    X('s', "set", "KEY=VALUE", "a key of the configuration, over file and environment")  \
    X('i', "init", "", "make state_dir and begin a new cluster in it, then serve")       \
    X('r', "restore", "FILE", "replace the store with a backup, and exit")               \
    X('k', "check-config", "", "check the configuration and exit: 0 valid, 6 invalid")   \
    X('p', "print-config", "", "print every key with its value and where it comes from") \
    X('e', "print-example", "", "print a commented file with every key, to begin with")  \
    X('V', "version", "", "print the version")                                           \
    X('h', "help", "", "print this text")

static void usage(FILE *out)
{
    (void)fputs("Usage: hspmdd [OPTION]...\n\n"
                "The coordinator of hspmd: plans training jobs over the devices of all connected\n"
                "workers and keeps them going when workers come and go.\n\n",
                out);
#define X(letter, name, arg, help) \
    (void)fprintf(out, "  -%c, --%-13s %-9s  %s\n", letter, name, arg, help);
    OPTIONS(X)
#undef X
    (void)fputs(
        "\nIt serves the cluster whose store is in state_dir, and begins none without --init.\n"
        "Environment: HSPMDD_KEY sets a key of the configuration, over the file.\n"
        "SIGTERM and SIGINT end it; training goes on. SIGHUP reads the configuration again.\n"
        "SIGUSR1 writes its state to the log. See hspmdd(8), hspmdd.yaml(5).\n",
        out);
}

static const struct option longs[] = {
#define X(letter, name, arg, help) {name, (arg)[0] ? required_argument : no_argument, NULL, letter},
    OPTIONS(X)
#undef X
        {NULL, 0, NULL, 0}};

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct options *ret)
{
    int opt;
    while ((opt = getopt_long(argc, argv, ":c:s:ir:kpeVh", longs, NULL)) != -1) {
        switch (opt) {
        case 'c': ret->config = optarg; break;
        case 's':
            if (ret->n_set == HSP_LAYERS_SETTINGS) {
                (void)fputs("hspmdd: too many --set; use a file\n", stderr);
                return EXIT_USAGE;
            }
            ret->set[ret->n_set++] = optarg;
            break;
        case 'i': ret->init = true; break;
        case 'r': ret->restore = optarg; break;
        case 'k': ret->wish = WISH_CHECK; break;
        case 'p': ret->wish = WISH_PRINT; break;
        case 'e': ret->wish = WISH_EXAMPLE; break;
        case 'V': (void)puts("hspmdd " PACKAGE_VERSION); return EXIT_SUCCESS;
        case 'h': usage(stdout); return EXIT_SUCCESS;
        default:
            (void)fprintf(stderr, "hspmdd: %s '%s'; see hspmdd --help\n",
                          opt == ':' ? "no value for option" : "unrecognized option",
                          argv[optind - 1]);
            return EXIT_USAGE;
        }
    }
    if (ret->init && ret->restore != NULL) {
        (void)fputs("hspmdd: --init begins a new cluster, --restore continues an old one; see "
                    "hspmdd --help\n",
                    stderr);
        return EXIT_USAGE;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "hspmdd: unexpected argument \"%s\"; see hspmdd --help\n",
                      argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

/* A key file that is named must be there; the default need not, and is none then. */
static enum hsp_status check_key(const char *name, bool have, const char **path,
                                 struct hsp_daemon_config *c, struct hsp_arena *arena,
                                 struct hsp_err *err)
{
    const char **origin = hsp_daemon_config_origin(c, name);
    if (have || *path == NULL || (*path)[0] == '\0') {
        return HSP_OK;
    }
    if (strcmp(*origin, "default") != 0) {
        return hsp_err_set(err, HSP_ENOENT, 0,
                           "%s: there is no %s; make it with openssl rand -hex 32, or set it to "
                           "\"\" for none",
                           name, *path);
    }
    const char *text = hsp_arena_printf(arena, "default, and there is no %s", *path);
    if (text == NULL) {
        return hsp_err_nomem(err, "the configuration");
    }
    *origin = text;
    *path = NULL;
    return HSP_OK;
}

static enum hsp_status check_keys(struct hsp_daemon_config *c, const struct hsp_net_keys *k,
                                  struct hsp_arena *arena, struct hsp_err *err)
{
    enum hsp_status st = check_key("worker_key", k->have_worker, &c->worker_key, c, arena, err);
    if (st == HSP_OK) {
        st = check_key("admin_key", k->have_admin, &c->admin_key, c, arena, err);
    }
    if (st == HSP_OK && k->have_worker && k->have_admin &&
        memcmp(k->worker, k->admin, sizeof k->worker) == 0) {
        return hsp_err_set(
            err, HSP_EPERM, 0,
            "worker_key %s and admin_key %s hold the same key, with which every agent "
            "could command; make another with openssl rand -hex 32",
            c->worker_key, c->admin_key);
    }
    return st;
}

/* Names are not looked up for listening. @path: may be that of a Unix socket. */
static enum hsp_status check_number(const char *key, const char *s, uint16_t port, bool path,
                                    struct hsp_addr *ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_addr_parse(s, port, ret, err);
    if (st != HSP_OK) {
        return hsp_err_wrap(err, "%s", key);
    }
    return (path && ret->local) || hsp_addr_is_number(ret)
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0,
                             "%s: %s is no address of this host with a port, like 10.0.0.1:%u; "
                             "0.0.0.0:%u is all of its addresses",
                             key, s, port, port);
}

static enum hsp_status check_metrics(const struct hsp_daemon_config *c, struct hsp_err *err)
{
    struct hsp_addr addr;
    const char *s = c->metrics_listen;
    return s == NULL || s[0] == '\0'
               ? HSP_OK
               : check_number("metrics_listen", s, HSP_HTTP_PORT, false, &addr, err);
}

/* Beyond loopback a key is needed; said here and not only when the listener is made, so that
 * --check-config finds it. On loopback the port stays closed without one: app.c says so. */
static enum hsp_status check_listen(const struct hsp_daemon_config *c, const struct hsp_net_keys *k,
                                    struct hsp_err *err)
{
    struct hsp_addr addr;
    if (c->listen == NULL || c->listen[0] == '\0') {
        return HSP_OK;
    }
    enum hsp_status st = check_number("listen", c->listen, HSP_PORT, true, &addr, err);
    if (st != HSP_OK) {
        return st;
    }
    if (!addr.local && !hsp_addr_is_loopback(&addr) && !k->have_worker) {
        return hsp_err_set(
            err, HSP_EPERM, 0,
            "listen: %s is beyond loopback and there is no worker_key; make one with "
            "openssl rand -hex 32",
            c->listen);
    }
    return HSP_OK;
}

/* The address that agents are told to dial must be one they may dial: with the key only. */
static enum hsp_status check_advertise(const struct hsp_daemon_config *c,
                                       const struct hsp_net_keys *k, struct hsp_err *err)
{
    struct hsp_addr told, listen;
    const char *s = c->advertise_address;
    if (s == NULL || s[0] == '\0') {
        return HSP_OK;
    }
    enum hsp_status st = hsp_addr_parse(c->listen, HSP_PORT, &listen, err);
    if (st == HSP_OK) {
        st = hsp_addr_parse(s, HSP_PORT, &told, err);
    }
    if (st != HSP_OK) {
        return hsp_err_wrap(err, "advertise_address");
    }
    bool here = hsp_addr_is_loopback(&told);
    if (!k->have_worker) {
        return hsp_err_set(err, HSP_EPERM, 0,
                           "advertise_address: agents dial %s only with a key and there is no "
                           "worker_key; make one with openssl rand -hex 32",
                           s);
    }
    if (here && !hsp_addr_is_loopback(&listen)) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "advertise_address: %s is each host itself, and listen %s is for others",
                           s, c->listen);
    }
    return HSP_OK;
}

/* File, environment and command line, checked as a whole. Texts of *ret live in @arena. */
static enum hsp_status load_config(const struct options *o, struct hsp_arena *arena,
                                   struct hsp_daemon_config *ret, struct hsp_net_keys *ret_keys,
                                   struct hsp_err *err)
{
    uint8_t *text = NULL;
    struct hsp_layers l = {.name = o->config != NULL ? o->config : DEFAULT_CONFIG};
    enum hsp_status st = hsp_file_read(l.name, CONFIG_MAX, &text, &l.len, err);
    if (st == HSP_ENOENT && o->config == NULL) {
        st = HSP_OK; /* defaults */
    }
    l.text = text != NULL ? (const char *)text : "";
    if (st == HSP_OK) {
        st = hsp_layers_env(&l, "HSPMDD_", environ, arena, err);
    }
    for (size_t i = 0; st == HSP_OK && i < o->n_set; i++) {
        st = hsp_layers_arg(&l, o->set[i], arena, err);
    }
    if (st == HSP_OK) {
        st = hsp_daemon_config_load(&l, arena, ret, err);
    }
    free(text);
    if (st == HSP_OK) {
        st = hsp_net_keys_load(ret->worker_key, ret->admin_key, ret_keys, err);
    }
    if (st == HSP_OK) {
        st = check_keys(ret, ret_keys, arena, err);
    }
    if (st == HSP_OK) {
        st = check_listen(ret, ret_keys, err);
    }
    if (st == HSP_OK) {
        st = check_metrics(ret, err);
    }
    return st == HSP_OK ? check_advertise(ret, ret_keys, err) : st;
}

/* @c NULL: the example. */
static int print_config(const struct hsp_daemon_config *c)
{
    struct hsp_buf b;
    hsp_buf_init(&b, CONFIG_MAX);
    if (c != NULL) {
        hsp_daemon_config_print(c, &b);
    } else {
        hsp_daemon_config_example(&b);
    }
    bool ok = fputs(hsp_buf_cstr(&b), stdout) >= 0 && fflush(stdout) == 0 && !b.failed;
    hsp_buf_fini(&b);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- running ---- */

static void on_app_closed(struct hsp_app *a)
{
    uv_stop(a->loop);
}

/* All of the new configuration is checked before any of it is applied. */
static void reload(struct program *p)
{
    struct hsp_err err = {0};
    struct hsp_daemon_config fresh;
    struct hsp_net_keys keys;
    struct hsp_buf applied, restart;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    (void)hsp_sd_notify(&p->app->notices, NULL, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                        uv_hrtime() / 1000);
    hsp_buf_init(&applied, CONFIG_MAX);
    hsp_buf_init(&restart, CONFIG_MAX);
    enum hsp_status st = arena == NULL ? hsp_err_nomem(&err, "reading the configuration")
                                       : load_config(p->options, arena, &fresh, &keys, &err);
    if (st == HSP_OK) {
        size_t n;
        const struct hsp_cfg_field *fields = hsp_daemon_config_fields(&n);
        hsp_layers_apply(fields, n, &p->cfg, &fresh, &applied, &restart);
        if (memcmp(&keys, &p->keys, sizeof keys) != 0) {
            hsp_buf_printf(&restart, "%scontent of the keys", restart.len > 0 ? ", " : "");
        }
        hsp_app_reconfigure(p->app, hsp_buf_cstr(&applied), hsp_buf_cstr(&restart));
    } else {
        hsp_app_reconfigure_failed(p->app, &err);
    }
    hsp_buf_fini(&applied);
    hsp_buf_fini(&restart);
    (void)hsp_arena_free(arena);
    (void)hsp_sd_notify(&p->app->notices, NULL, "READY=1\nSTATUS=%s%s",
                        st == HSP_OK ? "configuration reloaded" : "reload refused: ", err.msg);
}

static void on_signal(void *ctx, int signum)
{
    struct program *p = ctx;
    switch (signum) {
    case SIGTERM:
    case SIGINT:
        hsp_log(p->log, HSP_LOG_NOTICE, "app", "%s: ending, training continues", strsignal(signum));
        (void)hsp_sd_notify(&p->app->notices, NULL, "STOPPING=1"); /* a courtesy */
        hsp_app_close(p->app, on_app_closed);
        break;
    case SIGUSR1: hsp_app_dump(p->app); break;
    default: reload(p); break;
    }
}

static void drain_loop(struct program *p)
{
    while (uv_run(&p->loop, UV_RUN_NOWAIT) != 0 || uv_loop_alive(&p->loop)) {
        (void)uv_run(&p->loop, UV_RUN_ONCE); /* closing handles and works that end */
    }
}

/* After a failed start or write: lets go of everything on the loop. */
static int give_up(struct program *p)
{
    if (p->app != NULL) {
        hsp_app_close(p->app, on_app_closed);
    }
    drain_loop(p);
    return EXIT_FAILURE;
}

/* Planning allocates on several threads. One heap for all, that gives large pieces back, is
 * half the memory of one for each, and does not grow with the number of plans. */
static void frugal_heap(void)
{
    (void)mallopt(M_ARENA_MAX, 1); /* only wishes */
    (void)mallopt(M_MMAP_THRESHOLD, HEAP_PIECE);
    (void)mallopt(M_TRIM_THRESHOLD, HEAP_PIECE);
}

static int serve(struct program *p)
{
    struct hsp_err err = {0};
    enum hsp_status st = hsp_signals_open(&p->signals, &p->loop, on_signal, p, &err);
    if (st == HSP_OK) {
        const struct hsp_app_start start = {.cfg = &p->cfg,
                                            .keys = &p->keys,
                                            .log = p->log,
                                            .init = p->options->init,
                                            .service = getenv("STATE_DIRECTORY")};
        st = hsp_app_open(&p->loop, &start, &p->app, &err);
    }
    if (st != HSP_OK) {
        hsp_log(p->log, HSP_LOG_ERROR, "app", "cannot start: %s", err.msg);
        hsp_signals_close(&p->signals, NULL);
        return give_up(p);
    }
    bool clear = p->cfg.data_plane == HSP_DATA_CLEAR, trusts = p->cfg.trusted[0] != '\0';
    hsp_log(p->log, HSP_LOG_NOTICE, "app",
            "hspmdd " PACKAGE_VERSION
            " is ready, agents reach it at %s, data plane %s%s%s, state in %s",
            p->app->address, clear ? "clear" : "tls, NCCL ",
            clear    ? ""
            : trusts ? "allowed in clear on "
                     : "within hosts only",
            clear ? "" : p->cfg.trusted, p->cfg.state_dir);
    if (clear && trusts) {
        hsp_log(p->log, HSP_LOG_WARN, "app",
                "trusted_network %s has no effect with data_plane: clear, which trusts every "
                "network",
                p->cfg.trusted);
    }
    (void)hsp_sd_notify(&p->app->notices, NULL, "READY=1\nSTATUS=ready"); /* else owed */
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

/* No service is begun with it: a service that is started again would put back again. */
static int put_back(const char *file, const char *state_dir)
{
    struct hsp_state_folder folder;
    struct hsp_store_damage damage = {0};
    struct hsp_err err = {0};
    char left_out[HSP_DAMAGE_TEXT];
    if (access(state_dir, F_OK) != 0 && errno == ENOENT) {
        (void)fprintf(stderr,
                      "hspmdd: state_dir %s does not exist: create it for the user of hspmdd, as "
                      "install -d -m 700 -o hspmdd -g hspmd %s, then restore again\n",
                      state_dir, state_dir);
        return EXIT_FAILURE;
    }
    enum hsp_status st = hsp_state_folder_lock(state_dir, &folder, &err);
    st = st == HSP_OK ? hsp_restore(state_dir, file, &damage, &err) : st;
    hsp_state_folder_close(&folder);
    if (st != HSP_OK) {
        (void)fprintf(stderr, "hspmdd: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    if (damage.events + damage.metrics > 0) {
        hsp_store_damage_text(&damage, left_out);
        (void)fprintf(stderr, "hspmdd: %s: %s\n", file, left_out);
    }
    return printf("hspmdd: %s is put back in %s; start hspmdd\n", file, state_dir) > 0
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct hsp_err err = {0};
    int rc = parse_options(argc, argv, &o);
    if (rc >= 0) {
        return rc;
    }
    struct program p = {.options = &o, .arena = hsp_arena_new((size_t)64 << 20)};
    if (p.arena == NULL) {
        (void)fputs("hspmdd: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    if (o.wish == WISH_EXAMPLE) {
        rc = print_config(NULL);
    } else if (load_config(&o, p.arena, &p.cfg, &p.keys, &err) != HSP_OK) {
        (void)fprintf(stderr, "hspmdd: %s\n", err.msg);
        rc = EXIT_CONFIG;
    } else if (o.wish == WISH_PRINT) {
        rc = print_config(&p.cfg);
    } else if (o.wish == WISH_CHECK) {
        rc = EXIT_SUCCESS;
    } else if (o.restore != NULL) {
        rc = put_back(o.restore, p.cfg.state_dir);
    } else {
        frugal_heap();
        (void)setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 0); /* no thread runs yet */
        p.log = hsp_log_new(STDERR_FILENO, (enum hsp_log_level)p.cfg.log_level);
        hsp_log_on_assert(p.log);
        rc = p.log != NULL ? run(&p) : EXIT_FAILURE;
        p.log = hsp_log_free(p.log);
    }
    p.arena = hsp_arena_free(p.arena);
    return rc;
}
