/* Tells which rank has which box of the state between two epochs, and places second copies.
 *
 * Ranks of one table are *mesh ranks* of the new epoch: members 0..n-1 of the new plan, then
 * sources. A box stands for all kinds of state of the parameter (param, m, v or momentum).
 *
 * Example: 2 copies, ranks 0 and 1 on two nodes, zero 1: rank 1 keeps a copy of rank 0's half of
 * each parameter, and rank 0 a copy of rank 1's half. Without zero both ranks have all of the
 * state, and a ring lists them as equal copies.
 *
 * Role:        used by daemon/app for PREPARE (decisions D8-D10); bsr.h plans the transfer.
 * Purity:      pure and deterministic.
 * Ownership:   covers made here own their items (hsp_cover_fini); tables live in the arena given.
 */
#ifndef HSP_STATE_PLACEMENT_H
#define HSP_STATE_PLACEMENT_H
#include "daemon/plan/plan.h"
#include "proto/layout/cover.h"

/* from == to: the rank copies from its own old segment. */
struct hsp_state_row {
    uint32_t from, to; /* mesh ranks */
    uint32_t param;    /* index in graph.params */
    bool passed_on;    /* a transfer: @from got this very box by an earlier row of the table */
    struct hsp_box box;
};
struct hsp_state_table {
    uint32_t n;
    struct hsp_state_row *row; /* copies: sorted by (param, box, from, to); transfers: bsr.h */
};

/* Lists the live boxes of one parameter: the home under the old plan, with each old rank r renamed
 * to @mesh[r] (HSP_NONE: the rank has gone). @ret is initialised here. */
enum hsp_status hsp_have_home(const struct hsp_cover *old_home, const uint32_t *mesh,
                              uint32_t n_old, struct hsp_cover *ret, struct hsp_err *err);
/* Adds the second copies of @copies (old ranks) that parameter @param has on live buddies. */
enum hsp_status hsp_have_copies(const struct hsp_state_table *copies, uint32_t param,
                                const uint32_t *mesh, uint32_t n_old, struct hsp_cover *have,
                                struct hsp_err *err);

/* Returns the number of replica holders that a layout needs, because its members are on too few
 * nodes, to have @copies of everything on different nodes. Their mesh ranks begin at n_ranks. */
uint32_t hsp_spare_ranks(const uint32_t *node, uint32_t n_ranks, uint32_t copies);
/* Makes the table of second copies. For each part of a home that fewer than @copies nodes hold, it
 * has rows from the smallest rank with that part to its buddies: ranks on the next nodes of the
 * ring (nodes in ascending order) that lack the part. If there are too few nodes, the rest go to
 * the replica holders. @node[rank] has @n_ranks entries. */
enum hsp_status hsp_copy_table(const struct hsp_graph *g, const struct hsp_cover *home,
                               const uint32_t *node, uint32_t n_ranks, uint32_t copies,
                               struct hsp_arena *arena, struct hsp_state_table *ret,
                               struct hsp_err *err);
/* Makes rings over equal copies, so that a difference is found, and with it the rank that differs.
 * For each part of a home that several ranks have, there is a row from each of them to the next
 * greater one, and, if they are three or more, from the last to the first. */
enum hsp_status hsp_replica_table(const struct hsp_graph *g, const struct hsp_cover *home,
                                  uint32_t n_ranks, struct hsp_arena *arena,
                                  struct hsp_state_table *ret, struct hsp_err *err);

#endif
