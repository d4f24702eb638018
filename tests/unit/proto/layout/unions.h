/* Builds the two-tier annotations of HSPMD as trees: device groups, distributed states and unions.
 *
 * Role:      the notation of the paper, against which its examples are checked; a union is one way
 *            to write an annotation (annot.h).
 * Purity:    pure.
 * Ownership: borrowed arrays; trees live in the arena given.
 *
 * A distributed state (DS) cuts, copies or sums a tensor over the devices of a group: an ordered
 * list of (dim, count), slowest first. The device at place p of the group has the coordinates of p
 * in mixed radix, the last entry fastest. A union is K groups with a state each, and how the K
 * relate: the dim they cut (HDim), copies, or a sum. Everything is even here; the top tier may be
 * uneven by shares.
 */
#ifndef HSP_UNIONS_H
#define HSP_UNIONS_H
#include "proto/layout/annot.h"

#define HSP_DS_DUP     (-1)
#define HSP_DS_PARTIAL (-2)
#define HSP_DS_NONE    (-3) /* HDim of a union of one */
#define HSP_MAX_DS     (HSP_MAX_RANK + 2)

struct hsp_ds {
    uint8_t n;
    int8_t dim[HSP_MAX_DS]; /* >= 0 cut, HSP_DS_DUP, HSP_DS_PARTIAL; each once */
    uint32_t count[HSP_MAX_DS];
};
struct hsp_group {
    uint32_t n;
    const uint32_t *device; /* in order */
};
struct hsp_union {
    uint32_t k;                 /* HSize: groups */
    int8_t hdim;                /* like hsp_ds.dim; HSP_DS_NONE iff k is 1 */
    bool interleaved;           /* of a cut: inside of the groups' cuts (annot.h) */
    const int64_t *shares;      /* k weights of a cut; NULL: even */
    const struct hsp_group *dg; /* k */
    const struct hsp_ds *ds;    /* k, without the top tier */
};

/* Returns the number of devices of a state, which is the product of its counts; UINT32_MAX if that
 * is above HSP_MAX_RANKS. */
uint32_t hsp_ds_devices(const struct hsp_ds *ds);
/* Writes the coordinates of place @p, in the order of the entries, to @ret[n]. */
void hsp_ds_coords(const struct hsp_ds *ds, uint32_t p, uint32_t *ret);
/* Writes the places that differ from @p in the coordinate of @entry alone, in the order of that
 * coordinate, to @ret[count[@entry]]. */
void hsp_ds_group(const struct hsp_ds *ds, uint32_t p, uint8_t entry, uint32_t *ret);

/* Builds the tree of a union; annot.h parses, dumps and covers trees. HSP_EINVAL names the rule
 * that is broken: a count of 0, an entry twice, states that do not fit their groups, a device
 * twice, HDim of a union of one; HSP_ENOMEM. */
enum hsp_status hsp_union_annot(const struct hsp_union *u, struct hsp_arena *arena,
                                struct hsp_annot **ret, struct hsp_err *err);

#endif
