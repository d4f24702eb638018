/* Provides a transport whose operations do nothing. The engine rehearses moves over it, so that the
 * moves take the memory in which they pack messages. */
#ifndef HSP_DRY_TRANSPORT_H
#define HSP_DRY_TRANSPORT_H
#include "worker/comm/comm.h"

extern const struct hsp_comm_ops hsp_dry_ops;

#endif
