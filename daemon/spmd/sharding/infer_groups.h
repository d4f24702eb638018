/* Finds tensor-parallel groups and their shares in annotations of parameters.
 *
 * Role:      called by infer_pipelines.c.
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_INFER_GROUPS_H
#define HSP_INFER_GROUPS_H
#include "daemon/graph/graph.h"
#include "proto/layout/annot.h"

/* The groups of a parameter, in order: a split tier over ranks, or one rank. Trees are borrowed. */
struct hsp_use_groups {
    uint32_t param;
    uint32_t n;
    const struct hsp_annot **of; /* [n] */
};

/* Ranks of the group @a, and the @i-th of them. */
uint32_t hsp_use_group_n(const struct hsp_annot *a);
uint32_t hsp_use_group_rank(const struct hsp_annot *a, uint32_t i);

/* Appends the ranks of the tree @a to @rank[*n..], which has room for them. */
void hsp_use_ranks(const struct hsp_annot *a, uint32_t *rank, uint32_t *n);

/* Appends the groups of the tree @a, of the parameter @name, to @ret, which has room for one group
 * per rank. HSP_EINVAL: a split that is cut or copied again. */
enum hsp_status hsp_use_groups_add(const struct hsp_annot *a, const char *name,
                                   struct hsp_use_groups *ret, struct hsp_err *err);

/* @ret[]: the shares of group @k, which all the @n uses @u have with the same ranks. HSP_EINVAL: no
 * integers make all these cuts, and where; HSP_ENOMEM. */
enum hsp_status hsp_use_shares(const struct hsp_graph *g, const struct hsp_use_groups *u,
                               uint32_t n, uint32_t k, struct hsp_arena *arena, int64_t *ret,
                               struct hsp_err *err);

#endif
