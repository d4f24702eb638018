/* A transport that sends and receives nothing, for moves that are rehearsed: they take the memory that
 * they pack messages in. */
#ifndef HSP_DRY_TRANSPORT_H
#define HSP_DRY_TRANSPORT_H
#include "worker/comm/comm.h"

extern const struct hsp_comm_ops hsp_dry_ops;

#endif
