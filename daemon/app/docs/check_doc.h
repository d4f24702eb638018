/* Reports the findings of a check of nodes: figures beside those on record, and slow parts.
 *
 * Role:   the answer to hspmdctl node check, and the line about it in the events.
 * Rules:  a device is `slow` when one of its rates is below threshold times the one on record, and
 *         `crowded` when it got its core for less than threshold of the time; a link is `slow` when
 *         a direction moves less than threshold times the rate that planning assumes, or a message
 *         takes longer than by 1 / threshold and 0.1 ms more.
 * Purity: pure. */
#ifndef HSP_CHECK_DOC_H
#define HSP_CHECK_DOC_H
#include <cjson/cJSON.h>

#include "daemon/cluster/cluster_state.h"

struct hsp_check_sum {
    uint32_t nodes, pairs; /* measured */
    uint32_t skipped;      /* nodes that execute a job, pairs of which one does since */
    uint32_t worse;        /* devices and pairs too slow, and nodes and pairs that failed */
    char first[240];       /* the first of them, with its figures; "" none */
};

/* The document of c->check; cJSON_free. NULL: no memory. */
char *hsp_check_doc(const struct hsp_cluster *c, struct hsp_check_sum *ret);

#endif
