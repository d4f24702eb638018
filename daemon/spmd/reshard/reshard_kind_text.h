/* Prints the names of Reshards for total plans and program listings.
 *
 * Purity:    pure. */
#ifndef HSP_RESHARD_KIND_TEXT_H
#define HSP_RESHARD_KIND_TEXT_H
#include "daemon/spmd/reshard/reshard_kind.h"

const char *hsp_method_name(uint8_t method);
/* "reduce_scatter + send_recv, identity": what the parts are, each kind once. */
void hsp_methods_put(const struct hsp_methods *m, struct hsp_buf *out);

#endif
