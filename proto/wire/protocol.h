/* Lists the versions of the protocol that this program speaks, and finds the one that two programs
 * have in common (README.md, "Versions").
 *
 * Role:   frames are judged by it (frame.c), and the hello of an agent (daemon/cluster).
 * Purity: pure.
 */
#ifndef HSP_PROTOCOL_H
#define HSP_PROTOCOL_H
#include <stdint.h>

#include "proto/base/err.h"

/* The newest version of these sources, raised when a field or a message is added; the oldest one
 * that they still speak, raised when something else changes. Tests compile protocol.c a second time
 * with other numbers, and link it instead of ours. */
#ifndef HSP_PROTO_VERSION
#define HSP_PROTO_VERSION 18
#define HSP_PROTO_OLDEST  14
#endif

/* Additions that only a common version permits: the version that added each. */
#define HSP_PROTO_CKPTS    15 /* the message ckpts */
#define HSP_PROTO_SHAPE    15 /* the fact state-shape */
#define HSP_PROTO_AGAIN    15 /* again_ms of parked */
#define HSP_PROTO_SIGN     16 /* absent of ckpts counts the file of the begin, too */
#define HSP_PROTO_ATTEMPTS 15 /* the names of unfinished checkpoints (worker/state/ckpt_steps.h) */
#define HSP_PROTO_NOTES    16 /* notes of steps are shared (worker/executor/step_share.h) */
#define HSP_PROTO_BUCKETS  17 /* bindings have buckets (proto/program/README.md) */
#define HSP_PROTO_DUE      17 /* not every version is due (worker/executor/due.h) */
#define HSP_PROTO_LIVE     18 /* survivors seal live versions (worker/executor/epoch_live.h) */

struct hsp_protocol {
    uint8_t oldest, newest;
};
extern const struct hsp_protocol hsp_protocol; /* of this program */

/* The version in which this program and a peer talk: the newest that both speak.
 *
 * @oldest, @newest  of the peer.
 * @there, @here     how to call the peer and this program: "the agent of node a", "hspmdd".
 *
 * HSP_EVERSION: there is none; @err names both versions and the program to upgrade. */
enum hsp_status hsp_protocol_agree(uint32_t oldest, uint32_t newest, const char *there,
                                   const char *here, uint32_t *ret, struct hsp_err *err);

#endif
