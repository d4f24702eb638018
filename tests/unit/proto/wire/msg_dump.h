/* Messages as one line of text. */
#ifndef HSP_MSG_DUMP_H
#define HSP_MSG_DUMP_H
#include "proto/wire/msg.h"

/* One line for logs: "prepare epoch 3 job 1 device 0 ...". Keys are never printed. */
void hsp_msg_dump(const struct hsp_msg *m, struct hsp_buf *out);

#endif
