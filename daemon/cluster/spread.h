/* @@SENTENCE@@ spread: purpose to be written.
 *
 * Purity: pure data.
 */
#ifndef HSP_SPREAD_H
#define HSP_SPREAD_H
#include "daemon/cluster/cluster_state.h"

/* Of the layout that runs, or ran last. False: there is none, or no memory. */
bool hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                        struct hsp_spread *ret);

#endif
