#include "worker/state/ckpt_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "proto/program/program.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/io_error.h"

#define SLAB_BYTES (16U << 20) /* of a tensor in memory */

/* Calls @fn with slabs of @box (ranges of dim 0) of at most SLAB_BYTES, or one row. */
typedef enum hsp_status (*slab_fn)(void *ctx, const struct hsp_box *slab, void *buf,
                                   struct hsp_err *err);
static enum hsp_status each_slab(const struct hsp_box *box, size_t elem, slab_fn fn, void *ctx,
                                 struct hsp_err *err)
{
    struct hsp_slabs s;
    struct hsp_box slab;
    hsp_slabs_init(&s, box, elem, SLAB_BYTES);
    void *buf = malloc(s.bytes + 1);
    if (buf == NULL) {
        return hsp_err_nomem(err, "a slab of a checkpoint");
    }
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && hsp_slabs_next(&s, &slab)) {
        st = fn(ctx, &slab, buf, err);
    }
    free(buf);
    return st;
}

struct export_ctx {
    const struct hsp_ckpt *c;
    const struct hsp_ckpt_tensor *t;
    struct hsp_st_writer *w;
    size_t i;
    uint64_t at;
};

static enum hsp_status export_slab(void *ctx, const struct hsp_box *slab, void *buf,
                                   struct hsp_err *err)
{
    struct export_ctx *x = ctx;
    size_t bytes = (size_t)hsp_box_count(slab) * hsp_dtype_size(x->t->dtype);
    enum hsp_status st = hsp_ckpt_read(x->c, x->t, slab, slab, buf, err);
    if (st == HSP_OK) {
        st = hsp_st_write(x->w, x->i, x->at, buf, bytes, err);
        x->at += bytes;
    }
    return st;
}

static enum hsp_status export_model(const struct hsp_ckpt *c, const char *path, struct hsp_err *err)
{
    struct hsp_st_meta meta = {"format", "pt"};
    struct hsp_st_writer *w = NULL;
    size_t n = 0;
    struct hsp_st_entry *e = calloc(c->n_t + 1, sizeof(*e));
    if (e == NULL) {
        return hsp_err_nomem(err, "%zu tensors", c->n_t);
    }
    for (size_t i = 0; i < c->n_t; i++) {
        const struct hsp_ckpt_tensor *t = &c->t[i];
        if (t->kind == HSP_STATE_PARAM) {
            e[n] = (struct hsp_st_entry){.name = t->name, .dtype = t->dtype, .rank = t->rank};
            memcpy(e[n++].ext, t->full, sizeof(t->full));
        }
    }
    enum hsp_status st = hsp_st_create(path, e, n, &meta, 1, &w, err);
    n = 0;
    for (size_t i = 0; st == HSP_OK && i < c->n_t; i++) {
        const struct hsp_ckpt_tensor *t = &c->t[i];
        if (t->kind == HSP_STATE_PARAM) {
            struct hsp_box whole = hsp_box_whole(t->rank, t->full);
            struct export_ctx x = {c, t, w, n++, 0};
            st = each_slab(&whole, hsp_dtype_size(t->dtype), export_slab, &x, err);
        }
    }
    free(e);
    if (st == HSP_OK) {
        return hsp_st_finish(w, err);
    }
    if (w != NULL) {
        hsp_st_discard(w);
    }
    return st;
}

enum hsp_status hsp_ckpt_export(const struct hsp_ckpt *c, const char *out, struct hsp_err *err)
{
    char path[HSP_CKPT_PATH], part[HSP_CKPT_PATH];
    enum hsp_status st = hsp_ckpt_make_dir(out, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_join(out, "model.safetensors", path, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_join(out, "model.safetensors.part", part, err);
    }
    if (st == HSP_OK) {
        st = export_model(c, part, err);
    }
    if (st == HSP_OK && rename(part, path) != 0) {
        st = hsp_state_io_error(err, "cannot rename to", path);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_join(out, "config.json", path, err);
    }
    if (st == HSP_OK) {
        st = hsp_file_write(path, c->config, strlen(c->config), 0644, err);
    }
    return st == HSP_OK ? hsp_ckpt_sync_dir(out, err) : st;
}
