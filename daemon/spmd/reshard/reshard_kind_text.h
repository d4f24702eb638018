/* Prints the names of Reshards for total plans and program listings.
 *
 * Purity:    pure. */
#ifndef HSP_RESHARD_KIND_TEXT_H
#define HSP_RESHARD_KIND_TEXT_H
#include "daemon/spmd/reshard/reshard_kind.h"

/* "all_reduce", of enum hsp_reshard_method. */
const char *hsp_method_name(uint8_t method);
/* "reduce_scatter + send_recv, identity": the kinds of the parts, each kind once. */
void hsp_methods_put(const struct hsp_methods *m, struct hsp_buf *out);

#endif
