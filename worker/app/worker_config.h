/* Reads hspmd-worker.yaml, the settings of an administrator for one node.
 *
 * Role:      one table gives checks, defaults, messages and the commented example
 *            conf/hspmd-worker.yaml.
 * Purity:    pure: the text comes in a buffer.
 * Ownership: texts live in the arena given.
 */
#ifndef HSP_WORKER_CONFIG_H
#define HSP_WORKER_CONFIG_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/text/layers.h"

#define HSP_WORKER_KEYS 13

#define HSP_WORKER_DEVICES 16 /* of one node; the wire's HSP_NODE_DEVICES */
#define HSP_WORKER_CARDS   16 /* the wire's HSP_NODE_CARDS */
#define HSP_WORKER_CARD    15 /* letters of the name of one; the wire's HSP_CARD_NAME */

struct hsp_device_config {
    const char *kind;   /* "cpu", "cuda" */
    bool gpu;           /* kind is cuda */
    uint32_t index;     /* of the GPU, as CUDA counts them */
    double speed;       /* fraction of a core it may use; 1 = unpaced, a GPU always */
    uint64_t mem_bytes; /* offered to jobs; of a GPU 0: the free memory when the agent starts */
    uint32_t threads;   /* of its compute pool; 1 for a GPU */
};

struct hsp_card_config {
    const char *name;
    double gbit_per_s;                /* of its link, 0: not known */
    const char *address;              /* executors that use it accept peers there, "" = listen */
    const struct hsp_yaml *near_node; /* as written: indices of devices */
};

struct hsp_worker_config {
    const char *coordinator;       /* host:port, or the path of the daemon's Unix socket */
    const char *node;              /* name; "" = host name */
    const char *listen;            /* address of the data plane, port chosen by the system */
    const char *advertise_address; /* the address that peers dial, "" = listen */
    int transport;                 /* enum hsp_mesh_transport, but for UNIX */
    const char *state_dir;         /* state segments in STATE_DIR/NODE, "" = /dev/shm/hspmd-UID */
    const char *key;               /* file of the TLS-PSK key; absent: the socket only */
    const char *audit_dir;         /* where executors note the samples of each step, "" = nowhere */
    uint64_t leave_timeout_ms;     /* a planned leave takes at most this long */
    int log_level;
    const struct hsp_yaml *network_node; /* as written; parsed into the three below */
    uint32_t n_cards;
    struct hsp_card_config cards[HSP_WORKER_CARDS];
    uint32_t
        /* of devices, and replica holders behind them; with n_cards > 0 */
        card_of[HSP_WORKER_DEVICES];
    bool card_named[HSP_WORKER_DEVICES]; /* the file says so */
    const struct hsp_yaml *devices_node; /* as written; parsed into the two below */
    uint32_t
        /* executors that keep copies for other nodes; with the devices at most 16 */
        n_replica_holders;
    uint32_t n_devices;
    struct hsp_device_config devices[HSP_WORKER_DEVICES];
    const char *origin[HSP_WORKER_KEYS]; /* of each key: "default", "FILE:LINE", ... */
};

/* Loads the layers. HSP_EPARSE "file:line:column: ...". Without `devices` the node has one unpaced
 * cpu device of 1 GiB. */
enum hsp_status hsp_worker_config_load(const struct hsp_layers *l, struct hsp_arena *arena,
                                       struct hsp_worker_config *ret, struct hsp_err *err);
/* The origin of `key`. */
const char *hsp_worker_key_origin(const struct hsp_worker_config *c);
/* As YAML: the effective values, each with its origin. */
void hsp_worker_config_print(const struct hsp_worker_config *c, struct hsp_buf *out);
/* conf/hspmd-worker.yaml. */
void hsp_worker_config_example(struct hsp_buf *out);
/* Where the executor of a device or replica holder accepts peers: *ret_told is the address for them
 * instead ("": the same). */
const char *hsp_worker_listen(const struct hsp_worker_config *c, uint32_t device,
                              const char **ret_told);
/* The name of the chosen transport. */
const char *hsp_worker_transport(const struct hsp_worker_config *c);
/* The table, for the changes of a reload and for documentation. */
const struct hsp_cfg_field *hsp_worker_config_fields(size_t *ret_n);

#endif
