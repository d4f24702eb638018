/* Names the kinds of moves, as plans write them.
 *
 * Purity: pure.
 */
#ifndef HSP_MOVE_NAME_H
#define HSP_MOVE_NAME_H
#include <stdint.h>

/* "copy", "p2p", "all_reduce", ..: @kind is an enum hsp_move_kind. "unknown" for other numbers. */
const char *hsp_move_name(uint8_t kind);

#endif
