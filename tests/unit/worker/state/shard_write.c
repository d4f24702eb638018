#include "tests/unit/worker/state/shard_write.h"

#include <stdlib.h>

#include "proto/layout/box.h"
#include "worker/state/box_hash.h"

static enum hsp_status put(struct hsp_ckpt_stream *s, size_t i, const struct hsp_ckpt_piece *p,
                           struct hsp_err *err)
{
    size_t elem = hsp_dtype_size(p->dtype);
    void *dense = hsp_box_empty(&p->box) ? NULL : malloc((size_t)hsp_box_count(&p->box) * elem);
    enum hsp_status st = HSP_OK;
    if (dense != NULL) {
        hsp_region_copy(elem, &p->box, &p->held, p->data, &p->box, dense);
        st = hsp_ckpt_stream_put(s, i, &p->box, dense, err);
    } else if (!hsp_box_empty(&p->box)) {
        st = hsp_err_nomem(err, "a piece");
    }
    free(dense);
    return st;
}

static enum hsp_status stream(const char *dir, const struct hsp_ckpt_info *info, uint32_t rank,
                              const struct hsp_ckpt_piece *p, size_t n, uint64_t *ret_bytes,
                              struct hsp_err *err)
{
    struct hsp_ckpt_stream *s = NULL;
    enum hsp_status st = hsp_ckpt_stream_open(dir, info, rank, p, n, &s, err);
    if (st != HSP_OK) {
        return st;
    }
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        st = put(s, i, &p[i], err);
    }
    if (st != HSP_OK) {
        (void)hsp_ckpt_stream_discard(s);
        return st;
    }
    return hsp_ckpt_stream_close(s, ret_bytes, err);
}

enum hsp_status shard_write(const char *dir, const struct hsp_ckpt_info *info, uint32_t rank,
                            const struct hsp_ckpt_piece *p, size_t n, uint64_t *ret_bytes,
                            struct hsp_err *err)
{
    struct hsp_ckpt_piece *known = calloc(n + 1, sizeof *known);
    if (known == NULL) {
        return hsp_err_nomem(err, "%zu pieces", n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct hsp_box_id id = {p[i].tensor, p[i].kind, p[i].dtype, p[i].full};
        known[i] = p[i];
        known[i].hash =
            p[i].hash != 0 ? p[i].hash : hsp_box_hash(&id, &p[i].box, &p[i].held, p[i].data);
    }
    enum hsp_status st = stream(dir, info, rank, known, n, ret_bytes, err);
    free(known);
    return st;
}
