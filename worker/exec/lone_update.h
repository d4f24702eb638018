/* Tells whether a step needs no other rank once its vote has passed: its update, and what the
 * schedule has behind that. Under ZeRO an all-gather follows.
 *
 * Purity:  pure.
 * Example: data parallel. The sums of gradients stand in front of the vote, so the update of a rank
 *          is done even if all others die behind the vote. */
#ifndef HSP_LONE_UPDATE_H
#define HSP_LONE_UPDATE_H
#include "proto/program/program.h"

/* @p: checked. */
bool hsp_update_is_lone(const struct hsp_program *p);

#endif
