#include "worker/state/ckpt_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "proto/program/program.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"
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

struct verify_ctx {
    const struct hsp_ckpt *c;
    const struct hsp_ckpt_entry *e;
    uint64_t sum;
};

static enum hsp_status verify_slab(void *ctx, const struct hsp_box *slab, void *buf,
                                   struct hsp_err *err)
{
    struct verify_ctx *v = ctx;
    struct hsp_box_id id = {v->e->t.tensor, v->e->t.kind, v->e->t.dtype, v->e->t.full};
    enum hsp_status st = hsp_ckpt_read_piece(v->c, v->e, slab, slab, buf, err);
    if (st == HSP_OK) {
        v->sum += hsp_box_hash(&id, slab, slab, buf);
    }
    return st;
}

/* Names the file below the job's folder and the tensor as the file calls it. */
static enum hsp_status damaged(const struct hsp_ckpt *c, uint32_t shard,
                               const struct hsp_ckpt_entry *e, struct hsp_err *err)
{
    char dir[HSP_CKPT_PATH], file[HSP_CKPT_PATH];
    enum hsp_status st = hsp_ckpt_step_dir(".", c->info.step, false, dir, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_shard_path(dir + strlen("./"), shard, file, err);
    }
    return st != HSP_OK ? st
                        : hsp_err_set(err, HSP_EDIGEST, 0, "%s: %s is damaged", file, e->st->name);
}

enum hsp_status hsp_ckpt_verify(const struct hsp_ckpt *c, struct hsp_err *err)
{
    for (uint32_t s = 0; s < c->n_shards; s++) {
        for (size_t i = 0; i < c->shard[s].n; i++) {
            const struct hsp_ckpt_entry *e = &c->shard[s].e[i];
            struct verify_ctx v = {.c = c, .e = e};
            enum hsp_status st =
                each_slab(&e->box, hsp_dtype_size(e->t.dtype), verify_slab, &v, err);
            if (st != HSP_OK) {
                return st;
            }
            if (v.sum != e->hash) {
                return damaged(c, s, e, err);
            }
        }
    }
    return HSP_OK;
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
