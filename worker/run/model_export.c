#include "worker/run/model_export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/layout/box.h"
#include "worker/state/safetensors_write.h"

static bool is_param(const struct hsp_program *p, uint32_t k)
{
    return p->tpl.tensors[p->bind.state[k].tensor].state_kind == HSP_STATE_PARAM;
}

static enum hsp_status whole_make(const struct hsp_program *p, uint32_t k, struct hsp_whole *w,
                                  struct hsp_err *err)
{
    char name[HSP_MAX_NAME + 1];
    const struct hsp_state_bind *b = &p->bind.state[k];
    w->v.box = b->full;
    w->v.dtype = (enum hsp_dtype)p->tpl.tensors[b->tensor].dtype;
    w->v.data = calloc(1, hsp_cell_bytes(&b->full, w->v.dtype) + 1);
    w->name = strdup(hsp_state_name(p, k, name));
    return w->v.data && w->name ? HSP_OK : hsp_err_nomem(err, "%s", name);
}

enum hsp_status hsp_whole_init(const struct hsp_program *p, uint32_t n, struct hsp_whole_set *ret,
                               struct hsp_err *err)
{
    struct hsp_whole_set s = {0};
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t k = 0; k < p[r].bind.n_state; k++) {
            uint32_t id = p[r].bind.state[k].tensor_id;
            if (id >= HSP_MAX_TENSORS) {
                return hsp_err_set(err, HSP_ELIMIT, 0, "parameter number %u", id);
            }
            s.n = id >= s.n ? id + 1 : s.n;
        }
    }
    s.t = calloc((size_t)s.n + 1, sizeof(*s.t));
    enum hsp_status st = s.t ? HSP_OK : hsp_err_nomem(err, "tensors");
    for (uint32_t r = 0; r < n && st == HSP_OK; r++) {
        for (uint32_t k = 0; k < p[r].bind.n_state && st == HSP_OK; k++) {
            struct hsp_whole *w = &s.t[p[r].bind.state[k].tensor_id];
            if (is_param(&p[r], k) && !w->name) {
                st = whole_make(&p[r], k, w, err);
            }
        }
    }
    if (st != HSP_OK) {
        hsp_whole_fini(&s);
        return st;
    }
    *ret = s;
    return HSP_OK;
}

void hsp_whole_fini(struct hsp_whole_set *s)
{
    for (uint32_t k = 0; s->t && k < s->n; k++) {
        free(s->t[k].name);
        free(s->t[k].v.data);
    }
    free(s->t);
    *s = (struct hsp_whole_set){0};
}

void hsp_whole_add(struct hsp_whole_set *s, uint32_t tensor_id, const struct hsp_cell_view *part)
{
    if (tensor_id < s->n && s->t[tensor_id].name &&
        hsp_box_inside(&part->box, &s->t[tensor_id].v.box)) {
        hsp_cell_copy(&s->t[tensor_id].v, part, &part->box);
    }
}

void hsp_whole_scale(struct hsp_whole_set *s, double scale)
{
    for (uint32_t k = 0; k < s->n; k++) {
        struct hsp_cell_view *v = &s->t[k].v;
        int64_t n = s->t[k].name ? hsp_box_count(&v->box) : 0;
        for (int64_t j = 0; j < n; j++) {
            if (v->dtype == HSP_F64) {
                ((double *)v->data)[j] *= scale;
            } else {
                ((float *)v->data)[j] = (float)((double)((float *)v->data)[j] * scale);
            }
        }
    }
}

void hsp_whole_add_state(struct hsp_whole_set *s, const struct hsp_program *p, void *state)
{
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        if (is_param(p, k)) {
            struct hsp_cell_view v = hsp_state_view(p, k, state);
            hsp_whole_add(s, p->bind.state[k].tensor_id, &v);
        }
    }
}

enum hsp_status hsp_whole_write(const struct hsp_whole_set *s, const char *path,
                                struct hsp_err *err)
{
    struct hsp_st_entry *e = calloc((size_t)s->n + 1, sizeof(*e));
    uint32_t *id = calloc((size_t)s->n + 1, sizeof(*id));
    size_t n = 0;
    if (!e || !id) {
        free(e);
        free(id);
        return hsp_err_nomem(err, "%s", path);
    }
    for (uint32_t k = 0; k < s->n; k++) {
        const struct hsp_whole *w = &s->t[k];
        if (!w->name) {
            continue;
        }
        e[n] = (struct hsp_st_entry){.name = w->name, .dtype = w->v.dtype, .rank = w->v.box.rank};
        for (uint8_t d = 0; d < w->v.box.rank; d++) {
            e[n].ext[d] = w->v.box.hi[d];
        }
        id[n++] = k;
    }
    const struct hsp_st_meta meta = {.key = "format", .value = "pt"};
    struct hsp_st_writer *w = NULL;
    enum hsp_status st = hsp_st_create(path, e, n, &meta, 1, &w, err);
    for (size_t k = 0; k < n && st == HSP_OK; k++) {
        const struct hsp_cell_view *v = &s->t[id[k]].v;
        st = hsp_st_write(w, k, 0, v->data, hsp_cell_bytes(&v->box, v->dtype), err);
    }
    if (w) {
        if (st == HSP_OK) {
            st = hsp_st_finish(w, err);
        } else {
            (void)hsp_st_discard(w); /* the first error counts */
        }
    }
    free(e);
    free(id);
    return st;
}

enum hsp_status hsp_make_folders(const char *path, struct hsp_err *err)
{
    char *p = strdup(path);
    if (!p) {
        return hsp_err_nomem(err, "a path");
    }
    enum hsp_status st = HSP_OK;
    for (char *s = p + 1; st == HSP_OK; s++) {
        if (*s != '/' && *s != '\0') {
            continue;
        }
        char old = *s;
        *s = '\0';
        if (mkdir(p, 0777) != 0 && errno != EEXIST) {
            st = hsp_err_set(err, errno == EACCES ? HSP_EPERM : HSP_EIO, errno,
                             "cannot make folder %s", p);
        }
        *s = old;
        if (old == '\0') {
            break;
        }
    }
    free(p);
    return st;
}
