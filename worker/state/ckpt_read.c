/* Reads regions of a checkpoint. The happy path: the pieces that overlap a region are found by
 * tensor and kind, read in runs, and compared part by part in the safetensors reader.
 *
 * Possible failure modes: a damaged part (the error names file and tensor); a file without sums
 * (its pieces are read whole once, slab by slab, and compared with their hashes). */
#include "worker/state/ckpt_read.h"

#include <stdlib.h>

#include "proto/layout/box.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt_files.h"

#define SLAB_BYTES (16U << 20) /* of a piece in memory */

/* Number of the shard that an entry belongs to. */
static uint32_t shard_of(const struct hsp_ckpt *c, const struct hsp_ckpt_entry *e)
{
    uint32_t i = 0;
    while (i + 1 < c->n_shards && !(e >= c->shard[i].e && e < c->shard[i].e + c->shard[i].n)) {
        i++;
    }
    return i;
}

/* Names the file below the job's folder and the tensor as the file calls it. */
static enum hsp_status damaged(const struct hsp_ckpt *c, uint32_t shard,
                               const struct hsp_ckpt_entry *e, struct hsp_err *err)
{
    char file[HSP_CKPT_NAME];
    hsp_ckpt_shard_name(shard, file);
    return hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s: %s is damaged", c->name, file, e->st->name);
}

/* Reads @part of the piece @e into @dst, which holds @dst_box. */
static enum hsp_status read_piece(const struct hsp_ckpt *c, const struct hsp_ckpt_entry *e,
                                  const struct hsp_box *part, const struct hsp_box *dst_box,
                                  void *dst, struct hsp_err *err)
{
    uint32_t shard = shard_of(c, e);
    size_t elem = hsp_dtype_size(e->t.dtype);
    struct hsp_walk w;
    int64_t from, to;
    enum hsp_status st = HSP_OK;
    hsp_walk_init(&w, part, &e->box, dst_box);
    while (st == HSP_OK && hsp_walk_next(&w, &from, &to)) {
        st = hsp_st_read(c->shard[shard].st, e->st, (uint64_t)from * elem,
                         (uint8_t *)dst + (size_t)to * elem, (size_t)w.run * elem, err);
    }
    return st == HSP_EDIGEST ? damaged(c, shard, e, err) : st;
}

/* Reads a piece whole and compares its hash. */
static enum hsp_status verify_piece(const struct hsp_ckpt *c, const struct hsp_ckpt_entry *e,
                                    struct hsp_err *err)
{
    struct hsp_box_id id = {e->t.tensor, e->t.kind, e->t.dtype, e->t.full};
    struct hsp_slabs s;
    struct hsp_box slab;
    uint64_t sum = 0;
    enum hsp_status st = HSP_OK;
    hsp_slabs_init(&s, &e->box, hsp_dtype_size(e->t.dtype), SLAB_BYTES);
    void *buf = malloc(s.bytes + 1);
    if (buf == NULL) {
        return hsp_err_nomem(err, "a slab of a checkpoint");
    }
    while (st == HSP_OK && hsp_slabs_next(&s, &slab)) {
        st = read_piece(c, e, &slab, &slab, buf, err);
        sum += st == HSP_OK ? hsp_box_hash(&id, &slab, &slab, buf) : 0;
    }
    free(buf);
    return st == HSP_OK && sum != e->hash ? damaged(c, shard_of(c, e), e, err) : st;
}

/* Reads @part of the sorted entry @k into @dst, compared with sums. */
static enum hsp_status read_entry(const struct hsp_ckpt *c, size_t k, const struct hsp_box *part,
                                  const struct hsp_box *dst_box, void *dst, struct hsp_err *err)
{
    const struct hsp_st_reader *r = c->shard[shard_of(c, c->e[k])].st;
    enum hsp_status st = HSP_OK;
    if (!hsp_st_summed(r) && !c->checked[k]) {
        st = verify_piece(c, c->e[k], err);
        c->checked[k] = st == HSP_OK;
    }
    return st == HSP_OK ? read_piece(c, c->e[k], part, dst_box, dst, err) : st;
}

enum hsp_status hsp_ckpt_read(const struct hsp_ckpt *c, const struct hsp_ckpt_tensor *t,
                              const struct hsp_box *region, const struct hsp_box *dst_box,
                              void *dst, struct hsp_err *err)
{
    struct hsp_box whole = hsp_box_whole(t->rank, t->full), cut;
    size_t i = (size_t)(t - c->t);
    enum hsp_status st = HSP_OK;
    if (!hsp_box_inside(region, &whole) || !hsp_box_inside(region, dst_box)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "region outside %s", t->name);
    }
    for (size_t k = c->first[i]; st == HSP_OK && k < c->first[i + 1]; k++) {
        if (!hsp_box_cut(region, &c->e[k]->box, &cut)) {
            continue;
        }
        st = read_entry(c, k, &cut, dst_box, dst, err);
        hsp_st_relax(c->shard[shard_of(c, c->e[k])].st); /* thousands may be open */
    }
    return st;
}

enum hsp_status hsp_ckpt_verify(const struct hsp_ckpt *c, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t s = 0; st == HSP_OK && s < c->n_shards; s++) {
        for (size_t i = 0; st == HSP_OK && i < c->shard[s].n; i++) {
            st = verify_piece(c, &c->shard[s].e[i], err);
        }
        hsp_st_relax(c->shard[s].st);
    }
    return st;
}
