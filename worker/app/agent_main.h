/* Agent mode of hspmd-worker: `hspmd-worker --config FILE`.
 *
 * Purity: shell. */
#ifndef HSP_AGENT_MAIN_H
#define HSP_AGENT_MAIN_H
#include <stddef.h>

#include "proto/wire/msg.h"

struct hsp_agent_setup;
struct hsp_gpuwatch;

#define HSP_AGENT_SETS 64 /* --set of one command line; the configuration has fewer keys */

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
};

/* Reads the configuration, does what is wished, returns the exit status: 0, 1 failed, 6 the
 * configuration is wrong. */
int hsp_agent_main(const struct hsp_agent_request *r);
/* What is known of its GPUs; NULL: nothing. It belongs to @u. */
struct hsp_gpuwatch *hsp_agent_gpus(const struct hsp_agent_setup *u);
/* NCCL may have settings that are not in that environment: what it does is not known. */
bool hsp_agent_nccl_unknown(const struct hsp_agent_setup *u, uint32_t device);
/* The environment of the executor of a GPU (nccl_env.h); NULL: the agent's. It belongs to @u. */
char *const *hsp_agent_env(const struct hsp_agent_setup *u, uint32_t device);
/* Reads the configuration again, checks all of it and takes over what may change while the agent
 * runs; *ret_devices (of all devices, borrowed) when their figures are others now, else NULL. The
 * texts list what was taken and what needs a restart. On failure nothing has changed. */
enum hsp_status hsp_agent_reload(struct hsp_agent_setup *u, struct hsp_buf *ret_applied,
                                 struct hsp_buf *ret_restart,
                                 const struct hsp_m_device **ret_devices, struct hsp_err *err);

#endif
