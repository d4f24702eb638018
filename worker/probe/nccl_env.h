/* Makes the environment of an executor with a GPU: that of the agent, with the network cards that
 * NCCL should use.
 *
 * Role:   agent_main.c makes one for each GPU at start, spawn.c hands it on.
 * Purity: pure: environment and files come as texts.
 * Bounds: HSP_NCCL_ENV_MAX variables; with more there is none (HSP_ELIMIT), and NCCL is not
 *         trusted.
 *
 * In this order, a variable that is set stays: the agent's environment; NCCL's own configuration
 * files, which NCCL would read itself, so that all that counts is in one place (nccl_place.h asks
 * there); the settings of `network:`: NCCL_SOCKET_IFNAME is the card of the device, by which its
 * peers reach it, NCCL_IB_HCA the RDMA devices of all cards, of which NCCL takes those near the
 * GPU; NCCL_NET_DISABLE_INTRA=1, so that devices of one host never talk by its network;
 * NCCL_ENV_PLUGIN=none, so that no plugin (2.28) gives NCCL other variables. */
#ifndef HSP_NCCL_ENV_H
#define HSP_NCCL_ENV_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"

#define HSP_NCCL_ENV_MAX   4096u
#define HSP_NCCL_CARDS     16u /* the wire's HSP_NODE_CARDS */
#define HSP_NCCL_CARD_RDMA 8u  /* devices of one card: a bond has several */

struct hsp_nccl_card {
    char name[16];
    bool here; /* an interface of this host */
    uint32_t n_rdma;
    char rdma[HSP_NCCL_CARD_RDMA][64];
};

struct hsp_nccl_env_opts {
    char *const *env;    /* the agent's; NULL-terminated */
    const char *conf[2]; /* NCCL's files in the order in which it reads them; NULL: none */
    const struct hsp_nccl_card *card;
    uint32_t n_cards, own; /* own: of the device */
};

/* *ret: NULL-terminated, in @arena but for the agent's texts. *ret_made: variables from the cards,
 * for the log: "NCCL_SOCKET_IFNAME =eth0, NCCL_IB_HCA =mlx5_0"; "": nothing.
 * HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_nccl_env_make(const struct hsp_nccl_env_opts *o, struct hsp_arena *arena,
                                  char *const **ret, const char **ret_made, struct hsp_err *err);

#endif
