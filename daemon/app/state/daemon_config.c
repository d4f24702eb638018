/* Defines the keys of hspmdd.yaml in a table, and checks their values. */
#include "daemon/app/state/daemon_config.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "proto/base/size.h"
#include "proto/net/addr.h"
#include "proto/net/ip_net.h"
#include "proto/wire/msg.h"

#define AT(member) offsetof(struct hsp_daemon_config, member)

/* In the order of enum hsp_log_level. */
static const char *const levels[] = {"error", "warn", "notice", "info", "debug", "trace", NULL};

/* In the order of enum hsp_data_plane. */
static const char *const planes[] = {"tls", "clear", NULL};

static const struct hsp_cfg_field fields[] = {
    {.path = "listen",
     .type = HSP_FIELD_STR,
     .offset = AT(listen),
     .dflt = "127.0.0.1:7071",
     .help = "host:port for agents and remote administration, served with the keys below; without "
             "them agents\n# and hspmdctl use the socket"},
    {.path = "socket",
     .type = HSP_FIELD_STR,
     .offset = AT(socket),
     .dflt = "/run/hspmd/hspmdd.sock",
     .help =
         "Unix socket of this host's agents and administrators: root and the daemon's own user"},
    {.path = "worker_user",
     .type = HSP_FIELD_STR,
     .offset = AT(worker_user),
     .dflt = "hspmd-worker",
     .help = "user whose agents may join by the socket, and nothing else; \"\": none"},
    {.path = "advertise_address",
     .type = HSP_FIELD_STR,
     .offset = AT(advertise_address),
     .example = "head.example.org:7071",
     .help = "host:port under which others reach this daemon, when it is not the one of listen; "
             "agents try it too when they have lost their connection"},
    {.path = "metrics_listen",
     .type = HSP_FIELD_STR,
     .offset = AT(metrics_listen),
     .dflt = "127.0.0.1:7072",
     .help = "host:port of http /metrics (Prometheus) and /healthz, with no key; "
             "\"\": off"},
    {.path = "tensorboard",
     .type = HSP_FIELD_BOOL,
     .offset = AT(tensorboard),
     .dflt = "true",
     .help = "write TensorBoard event files of each job to state_dir/jobs/NAME-ID/tb"},
    {.path = "state_dir",
     .type = HSP_FIELD_STR,
     .offset = AT(state_dir),
     .dflt = "/var/lib/hspmd",
     .help = "folder of state.db and of the jobs' event files"},
    {.path = "worker_key",
     .type = HSP_FIELD_STR,
     .offset = AT(worker_key),
     .dflt = "/etc/hspmd/worker.key",
     .help =
         "pre-shared key of agents: may join, nothing else; a file that is named must be there; "
         "\"\": none"},
    {.path = "admin_key",
     .type = HSP_FIELD_STR,
     .offset = AT(admin_key),
     .dflt = "/etc/hspmd/admin.key",
     .help =
         "pre-shared key of remote administrators, another one than that of agents; \"\": none"},
    {.path = "insecure_loopback",
     .type = HSP_FIELD_BOOL,
     .offset = AT(insecure_loopback),
     .dflt = "false",
     .help = "for tests: without keys every user of this host may join and command by a listen on "
             "loopback"},
    {.path = "data_plane",
     .type = HSP_FIELD_CHOICE,
     .offset = AT(data_plane),
     .dflt = "tls",
     .choices = planes,
     .help = "tls or clear: traffic between devices of different hosts; clear only on a trusted "
             "network"},
    {.path = "trusted_network",
     .type = HSP_FIELD_STRS,
     .offset = AT(trusted_network),
     .example = "10.0.0.0/8",
     .help =
         "network, or list of at most 8, on which NCCL may carry traffic between GPUs of different "
         "hosts:\n# NCCL does not encrypt, so with data_plane tls it is otherwise used within "
         "hosts only; default none"},
    {.path = "heartbeat",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(heartbeat_ms),
     .dflt = "500ms",
     .min = 10,
     .max = 60000,
     .help = "how often an agent reports; one missed beat makes it suspect, never more"},
    {.path = "failure_detection",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(failure_detection_ms),
     .dflt = "3s",
     .min = 100,
     .max = 600000,
     .help = "an agent silent for so long is dead; a closed connection is noticed at once"},
    {.path = "prepare_timeout",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(prepare_ms),
     .dflt = "30s",
     .min = 1000,
     .max = 3600000,
     .help = "a switch whose members are not ready after this has failed and is planned again"},
    {.path = "state_wait",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(state_wait_ms),
     .dflt = "0s",
     .min = 0,
     .max = 604800000.0,
     .help =
         "how long a job waits for nodes that store its newest state before it goes back to a "
         "checkpoint;\n# state that they bring later is given up; 0s: 20 times failure_detection"},
    {.path = "forget_after",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(forget_after_ms),
     .dflt = "7d",
     .min = 0,
     .max = 315360000000.0,
     .help =
         "a node that has gone is forgotten after this, unless it is drained or allowed to store "
         "copies, or a\n# job needs it; 0s: never"},
    {.path = "max_nodes",
     .type = HSP_FIELD_U32,
     .offset = AT(max_nodes),
     .dflt = "256",
     .min = 1,
     .max = HSP_MAX_NODES,
     .help = "agents at most; each needs two file descriptors, all other callers 1900"},
    {.path = "planner_memory",
     .live = true,
     .type = HSP_FIELD_BYTES,
     .offset = AT(planner_memory),
     .dflt = "1GiB",
     .min = 16777216,
     .max = 1099511627776.0,
     .help = "memory of one planning run at most"},
    {.path = "log_level",
     .live = true,
     .type = HSP_FIELD_CHOICE,
     .offset = AT(log_level),
     .dflt = "info",
     .choices = levels,
     .help = "error, warn, notice, info, debug or trace"},
};

static_assert(HSP_ARRAY_LEN(fields) == HSP_DAEMON_KEYS, "an origin for each key");
static_assert(HSP_NETWORKS_MAX + 1 == HSP_IPNETS_TEXT, "every readable list fits into a PREPARE");

/* Others are to dial it: a host and a port, not a path, not "any". */
static enum hsp_status check_advertise(const struct hsp_daemon_config *c, const char *name,
                                       struct hsp_err *err)
{
    struct hsp_addr a;
    struct hsp_err why = {0};
    const char *s = c->advertise_address;
    if (s == NULL || s[0] == '\0') {
        return HSP_OK;
    }
    if (c->listen == NULL || c->listen[0] == '\0') {
        (void)hsp_err_set(&why, HSP_EPARSE, 0, "%s: nothing listens, see `listen`", s);
    } else if (strlen(s) > HSP_ADDRESS_MAX) {
        (void)hsp_err_set(&why, HSP_EPARSE, 0, "%zu bytes, at most %d", strlen(s), HSP_ADDRESS_MAX);
    } else if (hsp_addr_parse(s, HSP_PORT, &a, &why) == HSP_OK &&
               (a.local || a.port == 0 || hsp_addr_is_any(&a) || !hsp_addr_is_plain(&a))) {
        (void)hsp_err_set(&why, HSP_EPARSE, 0, "%s is not a host:port that others can dial", s);
    }
    return why.code == HSP_OK
               ? HSP_OK
               : hsp_err_set(err, HSP_EPARSE, 0, "%s: advertise_address: %s", name, why.msg);
}

static enum hsp_status load_trusted(struct hsp_daemon_config *c, const char *name,
                                    struct hsp_arena *arena, struct hsp_err *err)
{
    const struct hsp_strs *s = &c->trusted_network;
    struct hsp_ipnets nets = {0};
    struct hsp_err why = {0};
    char text[HSP_IPNETS_TEXT];
    if (s->n > HSP_IPNETS) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%s: trusted_network: %zu networks, at most %u",
                           name, s->n, HSP_IPNETS);
    }
    for (size_t i = 0; i < s->n; i++) {
        const char *one = s->items[i];
        enum hsp_status st =
            strchr(one, ',') != NULL
                ? hsp_err_set(&why, HSP_EINVAL, 0,
                              "%.60s: a list is written [10.0.0.0/8, fd00::/8]", one)
                : hsp_ipnet_parse(one, &nets.net[nets.n++], &why);
        if (st != HSP_OK) {
            return hsp_err_set(err, HSP_EPARSE, 0, "%s: trusted_network: %s", name, why.msg);
        }
    }
    hsp_ipnets_text(&nets, text);
    c->trusted = hsp_arena_strdup(arena, text);
    return c->trusted != NULL ? HSP_OK : hsp_err_nomem(err, "the trusted networks");
}

enum hsp_status hsp_daemon_config_load(const struct hsp_layers *l, struct hsp_arena *arena,
                                       struct hsp_daemon_config *ret, struct hsp_err *err)
{
    struct hsp_daemon_config c;
    memset(&c, 0, sizeof c);
    enum hsp_status st =
        hsp_layers_load(l, fields, HSP_ARRAY_LEN(fields), arena, &c, c.origin, err);
    if (st == HSP_OK && c.heartbeat_ms * 5 > c.failure_detection_ms * 2) {
        return hsp_err_set(
            err, HSP_EPARSE, 0,
            "%s: failure_detection must be at least 2.5 heartbeats, or one lost beat kills",
            l->name);
    }
    if (st == HSP_OK && c.socket != NULL && c.socket[0] != '\0' && c.socket[0] != '/' &&
        strncmp(c.socket, "unix:", 5) != 0) { /* such a text would be taken for a host */
        return hsp_err_set(err, HSP_EPARSE, 0, "%s: socket: %s is no path from the root", l->name,
                           c.socket);
    }
    if (st == HSP_OK) {
        st = check_advertise(&c, l->name, err);
    }
    if (st == HSP_OK) {
        st = load_trusted(&c, l->name, arena, err);
    }
    if (st == HSP_OK) {
        *ret = c;
    }
    return st;
}

const char **hsp_daemon_config_origin(struct hsp_daemon_config *c, const char *path)
{
    size_t i = 0;
    while (i + 1 < HSP_ARRAY_LEN(fields) && strcmp(fields[i].path, path) != 0) {
        i++;
    }
    return &c->origin[i];
}

void hsp_daemon_config_print(const struct hsp_daemon_config *c, struct hsp_buf *out)
{
    hsp_layers_print(fields, HSP_ARRAY_LEN(fields), c, c->origin, out);
}

void hsp_daemon_config_example(struct hsp_buf *out)
{
    hsp_layers_example(fields, HSP_ARRAY_LEN(fields),
                       "Configuration of hspmdd, the coordinator. Every key is optional; the "
                       "values shown are the\n# defaults, or examples where a key has none. Each "
                       "can also be given as --set KEY=VALUE "
                       "or in the environment as HSPMDD_KEY.",
                       out);
}

const struct hsp_cfg_field *hsp_daemon_config_fields(size_t *ret_n)
{
    *ret_n = HSP_ARRAY_LEN(fields);
    return fields;
}
