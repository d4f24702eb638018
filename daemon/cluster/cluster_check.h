/* @@SENTENCE@@ cluster_check: purpose to be written.
 *
 * Purity:    pure: time and everything else arrive in events.
 */
#ifndef HSP_CLUSTER_CHECK_H
#define HSP_CLUSTER_CHECK_H
#include "proto/base/buf.h"

struct hsp_cluster;

/* Asserts I1-I6. */
void hsp_cluster_check(const struct hsp_cluster *c);
/* One page of text. */
void hsp_cluster_dump(const struct hsp_cluster *c, struct hsp_buf *out);

#endif
