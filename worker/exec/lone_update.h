/* Tells whether a step needs no other rank once its vote has passed, for its update and for all
 * later entries of the schedule. Under ZeRO an all-gather follows.
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
