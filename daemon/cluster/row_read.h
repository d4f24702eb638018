/* Reads rows of the durable state without a core, so that a store can tell their cluster and the
 * jobs that they name, and writes the row with which an older store is put back. */
#ifndef HSP_ROW_READ_H
#define HSP_ROW_READ_H
#include "daemon/cluster/cluster.h"
#include "proto/base/buf.h"
#include "proto/wire/identity.h"

/* The name of the job whose row this is. False: it is another one, or does not decode. */
bool hsp_cluster_row_job_name(const struct hsp_cluster_row *row, char ret[HSP_NAME_MAX + 1]);

#define HSP_RESTORED_ROW "restored"
#define HSP_CLUSTER_ROW  "cluster" /* for hsp_cluster_row_whose */

/* Appends the value of HSP_RESTORED_ROW: this store is put back in the place of another one of its
 * cluster, which was of generation @least, 0 not known. The core that loads it begins a generation
 * after both, and erases the row in the same step. */
void hsp_cluster_restored_row(uint64_t least, struct hsp_buf *out);
/* Reads it back: no hspmdd has started since. False: @row is another one, or does not decode;
 * *ret_least is untouched. */
bool hsp_cluster_row_restored(const struct hsp_cluster_row *row, uint64_t *ret_least);
/* Whose store it is, as its row "cluster" says; its generation, or a later one that its members
 * have obeyed. False: @row is another one, or does not decode; *ret is untouched. */
bool hsp_cluster_row_whose(const struct hsp_cluster_row *row, struct hsp_whose *ret);

#endif
