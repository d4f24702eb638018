#include "proto/program/move_name.h"

#include "proto/program/program.h"

const char *hsp_move_name(uint8_t kind)
{
    switch ((enum hsp_move_kind)kind) {
    case HSP_MOVE_COPY: return "copy";
    case HSP_MOVE_P2P: return "p2p";
    case HSP_MOVE_ALL_REDUCE: return "all_reduce";
    case HSP_MOVE_REDUCE_SCATTER: return "reduce_scatter";
    case HSP_MOVE_ALL_GATHER: return "all_gather";
    case HSP_MOVE_REDUCE_SEND: return "reduce_send";
    }
    return "unknown";
}
