/* What the files of this room share; nobody else includes it. */
#ifndef HSP_CLUSTER_IMPL_H
#define HSP_CLUSTER_IMPL_H
#include "daemon/cluster/cluster_state.h"

#define HSP_NEVER UINT64_MAX

/* keepers.c */
/* A node that may keep a copy: what the choice is made by. */
struct hsp_keeper_node {
    uint32_t node;
    hsp_device_id device;
    bool mine;     /* the job keeps there already */
    bool up;       /* at once */
    uint64_t kept; /* bytes it keeps for all jobs */
    uint64_t room; /* bytes it has left, UINT64_MAX not known */
};

#endif
