/* Prepares a node for its agent: reads the configuration, locks the node's folder, measures devices
 * and links, and makes the environment of executors.
 *
 * Role:      hsp_agent_main prepares it before the loop runs. The loop asks it again at SIGHUP and
 *            for each executor that starts.
 * Purity:    shell.
 * Ownership: the caller owns the struct and its arena; texts and profiles live in them.
 */
#ifndef HSP_AGENT_SETUP_H
#define HSP_AGENT_SETUP_H
#include <stddef.h>

#include "proto/host/log.h"
#include "proto/net/net.h"
#include "proto/wire/msg.h"
#include "worker/agent/agent.h"
#include "worker/app/worker_config.h"
#include "worker/probe/gpu_monitor.h"
#include "worker/probe/nic.h"
#include "worker/probe/probe.h"
#include "worker/probe/probe_gpu_path.h"
#include "worker/state/segment_dir.h"

#define HSP_AGENT_CONFIG_MAX  ((size_t)1 << 20) /* of a file with settings */
#define HSP_AGENT_SETUP_BYTES ((size_t)8 << 20) /* of the arena */
#define HSP_AGENT_SETS        64 /* --set of one command line; the configuration has fewer keys */

enum hsp_agent_wish {
    HSP_AGENT_RUN,
    HSP_AGENT_CHECK_CONFIG,
    HSP_AGENT_PRINT_CONFIG,
    HSP_AGENT_PRINT_EXAMPLE
};

struct hsp_agent_request { /* of the command line */
    const char *config;    /* file, NULL: none */
    enum hsp_agent_wish wish;
    size_t n_set;
    const char *set[HSP_AGENT_SETS]; /* "KEY=VALUE", borrowed */
    const char *kill_dir;            /* of executors, for tests (kill_point.h); NULL: none */
    const char *bare_file;           /* the same (unprotected.h) */
};

struct hsp_agent_setup {
    const struct hsp_agent_request *request;
    struct hsp_arena *arena;
    struct hsp_worker_config cfg;
    struct hsp_net_keys keys;
    const char *node, *dir;
    int lock_fd;                              /* held while the agent lives */
    struct hsp_probe probe[HSP_NODE_DEVICES]; /* of the whole cores, as measured at start */
    uint64_t asked[HSP_NODE_DEVICES];         /* of GPUs: their memory as it was configured */
    char lost[HSP_NODE_DEVICES][120];         /* why a GPU cannot be used; "": it can */
    struct hsp_m_device device[HSP_NODE_DEVICES];
    struct hsp_m_card card[HSP_NODE_CARDS];
    struct hsp_netcard found;           /* where the file names none */
    char *const *env[HSP_NODE_DEVICES]; /* of executors with a GPU; NULL: ours */
    bool nccl_unknown[HSP_NODE_DEVICES];
    struct hsp_gpu_wanted wanted[HSP_NODE_DEVICES];
    struct hsp_gpuwatch *gpus; /* NULL: there are none, or NVML does not know them */
    struct hsp_m_path path[HSP_NODE_PATHS];
    struct hsp_probe_path measured[HSP_NODE_PATHS]; /* between GPUs by their numbers */
    uint32_t n_measured;
    struct hsp_m_damaged *damaged; /* owned: state that was damaged, and is deleted */
    char copy[HSP_SEGMENT_FILE];   /* a copy of a state segment, which is left alone; "" none */
    struct hsp_agent_config machine;
};

/* File, environment (HSPMD_WORKER_KEY) and command line of u->request into u->cfg, with the name of
 * the node and the folder that they leave open. HSP_EINVAL; errors of reading a file. */
enum hsp_status hsp_agent_setup_read(struct hsp_agent_setup *u, struct hsp_err *err);
/* Loads the keys and checks the addresses: `listen` has no port, and TCP has a
 * key. Nothing is measured yet, so that --check-config finds a mistake at once. HSP_EINVAL,
 * HSP_EPERM. */
enum hsp_status hsp_agent_setup_check(struct hsp_agent_setup *u, struct hsp_err *err);
/* Locks the folder and measures the node: u->machine is complete. Not to be called twice. */
enum hsp_status hsp_agent_setup_prepare(struct hsp_agent_setup *u, struct hsp_logger *log,
                                        struct hsp_err *err);
/* Gives up GPUs and folder; the arena stays. */
void hsp_agent_setup_close(struct hsp_agent_setup *u);

/* The watch over its GPUs; NULL: nothing is known of them. Belongs to @u. */
struct hsp_gpuwatch *hsp_agent_gpus(const struct hsp_agent_setup *u);
/* NCCL may have settings that are not in that environment: its effective ones are not known. */
bool hsp_agent_nccl_unknown(const struct hsp_agent_setup *u, uint32_t device);
/* The environment of the executor of a GPU (nccl_env.h); NULL: the agent's. Belongs to @u. */
char *const *hsp_agent_env(const struct hsp_agent_setup *u, uint32_t device);
/* Reads the configuration again, checks all of it and takes over the settings that may change while
 * the agent runs; *ret_devices (of all devices, borrowed) when their figures are others now, else
 * NULL. The texts list the settings taken and those that need a restart. On failure nothing has
 * changed. */
enum hsp_status hsp_agent_reload(struct hsp_agent_setup *u, struct hsp_buf *ret_applied,
                                 struct hsp_buf *ret_restart,
                                 const struct hsp_m_device **ret_devices, struct hsp_err *err);

#endif
