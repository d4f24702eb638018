/* Asserts the invariants of cluster.h and prints the state, for debug builds and tests. */
#ifndef HSP_CLUSTER_CHECK_H
#define HSP_CLUSTER_CHECK_H
#include "proto/base/buf.h"

struct hsp_cluster;

/* Asserts I1-I7. */
void hsp_cluster_check(const struct hsp_cluster *c);
/* One page of text. */
void hsp_cluster_dump(const struct hsp_cluster *c, struct hsp_buf *out);

#endif
