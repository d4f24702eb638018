/* Makes messages of the bytes of an input, within the limits of their tables, as a decoder would
 * pass them. Most numbers are small, so that they meet each other. */
#ifndef HSP_FUZZMSG_H
#define HSP_FUZZMSG_H

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/wire/msg.h"

/* A byte of the input; 0 behind its end. */
uint8_t hsp_fuzz_byte(struct hsp_cursor *c);

/* A message of type @type, in @arena. */
struct hsp_msg hsp_fuzz_message(struct hsp_cursor *c, uint16_t type, struct hsp_arena *arena);

/* One of the message types below 100, between agents, executors and hspmdd. */
uint16_t hsp_fuzz_type(struct hsp_cursor *c);

#endif
