/* Names of Reshards and moves, as texts that tests compare. */
#ifndef HSP_MOVE_TEXT_H
#define HSP_MOVE_TEXT_H
#include "daemon/spmd/reshard/reshard_kind.h"
#include "daemon/spmd/reshard/resolve.h"

/* "split_all_reduce {0,1,4}: {0,4} {1,4}" per line. */
void hsp_methods_dump(const struct hsp_methods *m, struct hsp_buf *out);
/* "all_reduce {0,1} [0:4,0:8]" per line. */
void hsp_moves_dump(const struct hsp_moves *m, struct hsp_buf *out);

#endif
