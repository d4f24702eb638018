/* Tells whether a step needs no other rank after its vote has passed: neither its update nor a
 * later entry of the schedule sends or receives.
 *
 * Purity:  pure.
 * Example: data parallel. The sums of gradients come before the vote, so a rank finishes its update
 *          even if all other ranks die after the vote. Under ZeRO an all-gather follows the update,
 *          so the step does need other ranks. */
#ifndef HSP_LONE_UPDATE_H
#define HSP_LONE_UPDATE_H
#include "proto/program/program.h"

/* Returns true if no step of @p, a checked program, needs another rank after its vote. */
bool hsp_update_is_lone(const struct hsp_program *p);

#endif
