/* Reads hspmdd.yaml, the administrator's settings of the coordinator.
 *
 * Role:      one table gives checks, defaults, messages and the commented example conf/hspmdd.yaml.
 * Purity:    pure: the text comes in a buffer.
 * Ownership: texts live in the arena given. */
#ifndef HSP_DAEMON_CONFIG_H
#define HSP_DAEMON_CONFIG_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/text/layers.h"

#define HSP_DAEMON_KEYS 20

/* How executors of different hosts talk to each other. */
enum hsp_data_plane { HSP_DATA_TLS, HSP_DATA_CLEAR };

struct hsp_daemon_config {
    const char *listen;                 /* host:port of agents and remote admin; "" off */
    const char *socket;                 /* path of the local admin socket */
    const char *advertise_address;      /* host:port others reach it by, "" = listen */
    const char *metrics_listen;         /* host:port of /metrics and /healthz; "" off */
    bool tensorboard;                   /* event files under state_dir/jobs */
    const char *state_dir;              /* state.db and jobs */
    const char *worker_user;            /* besides root and us: may join by the socket; "" none */
    const char *worker_key, *admin_key; /* files of TLS-PSK keys; NULL, "": the socket only */
    bool insecure_loopback;             /* without keys `listen` is served, on loopback */
    uint64_t heartbeat_ms;              /* agents beat at this rate */
    uint64_t failure_detection_ms;      /* a silent agent is dead after this */
    uint64_t state_wait_ms;             /* for state that is away, 0: by failure_detection */
    uint64_t forget_after_ms;           /* a node that has gone is forgotten, 0: never */
    uint64_t prepare_ms;                /* a switch that is not ready by then has failed */
    int data_plane;                     /* enum hsp_data_plane */
    struct hsp_strs trusted_network;    /* as written */
    const char *trusted;                /* the same in words, "10.0.0.0/8, fd00::/8"; "" none */
    uint32_t max_nodes;
    uint64_t planner_memory;             /* cap of one planning run */
    int log_level;                       /* enum hsp_log_level */
    const char *origin[HSP_DAEMON_KEYS]; /* of each key: "default", "FILE:LINE", ... */
};

/* Loads the layers. HSP_EPARSE "file:line:column: ...", also for heartbeat above a third of
 * failure_detection, an advertise_address nobody could dial and a trusted_network that is none. */
enum hsp_status hsp_daemon_config_load(const struct hsp_layers *l, struct hsp_arena *arena,
                                       struct hsp_daemon_config *ret, struct hsp_err *err);
/* The place of the origin of the key @path, which is in the table. */
const char **hsp_daemon_config_origin(struct hsp_daemon_config *c, const char *path);
/* As YAML: the effective values, each with its origin. */
void hsp_daemon_config_print(const struct hsp_daemon_config *c, struct hsp_buf *out);
/* conf/hspmdd.yaml. */
void hsp_daemon_config_example(struct hsp_buf *out);
/* The table, for the changes of a reload and for documentation. */
const struct hsp_cfg_field *hsp_daemon_config_fields(size_t *ret_n);

#endif
