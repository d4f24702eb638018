/* Restores the durable state from rows of the forms ROW_OLDEST to ROW_VERSION (row_forms.h).
 *
 * The caller gives the rows of nodes first, then those of jobs, then those of plans: a row names
 * nodes and jobs of earlier ones. */
#ifndef HSP_ROW_LOAD_H
#define HSP_ROW_LOAD_H
#include "daemon/cluster/cluster_state.h"

/* Restores one row. HSP_EPARSE, HSP_EVERSION, HSP_ENOMEM: as hsp_cluster_load. */
enum hsp_status hsp_ci_load_row(struct hsp_cluster *c, const struct hsp_cluster_row *row,
                                struct hsp_err *err);

/* ---- for the store, when it changes older tables ---- */

/* HSP_EVERSION: the row of the core is of a form that is read no more. */
enum hsp_status hsp_cluster_row_old(const struct hsp_cluster_row *row, struct hsp_err *err);

#endif
