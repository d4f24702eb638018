#include "daemon/spmd/lower/offload.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/lower/layer_runs.h"
#include "daemon/spmd/lower/stage_ir.h"

/* Where a value is copied. */
struct transit {
    size_t at;  /* before this step of the part */
    size_t use; /* the step that uses it last, or first */
    uint32_t value;
};

struct offload {
    struct hsp_compiler *c;
    struct hsp_stagecode *s;
    uint32_t n;               /* values before this pass */
    uint32_t *maker;          /* [value]: part of Forward that makes it, HSP_NONE; owned */
    uint32_t *host;           /* [value]: its copy in host memory, HSP_NONE; owned */
    uint32_t *back;           /* [value]: its copy in the running part, HSP_NONE; owned */
    size_t *use;              /* [value]: 1 + the step of the running part that uses it; owned */
    uint32_t *run_of;         /* [step of the running part]; owned, as long as the longest part */
    struct hsp_unit_run *run; /* of the running part; owned */
    uint32_t n_runs;
    struct transit *transit; /* [value]; owned */
    uint32_t n_transits;
    struct hsp_err *err;
};

static bool in_backward(uint32_t part)
{
    return hsp_part_kind(part) == HSP_PART_BACKWARD || hsp_part_kind(part) == HSP_PART_WGRAD;
}

/* ---- the tensors to copy ---- */

static enum hsp_status copy_value(struct offload *x, uint32_t value, uint8_t cls,
                                  const char *suffix, uint32_t *ret)
{
    struct hsp_value v = x->s->value[value];
    v.parts = 0;
    v.next = HSP_NONE;
    v.cls = cls;
    v.name = hsp_arena_printf(x->c->arena, "%s%c%s", v.name,
                              strchr(v.name, '#') != NULL ? '.' : '#', suffix);
    return v.name != NULL ? hsp_value_add(x->s, &v, ret, x->err)
                          : hsp_err_nomem(x->err, "offload of pipeline %u stage %u", x->s->pipeline,
                                          x->s->stage);
}

static void find_makers(struct offload *x)
{
    for (uint32_t c = 0; c < x->s->n_chunks; c++) {
        uint32_t part = hsp_part_at(HSP_PART_FORWARD, c);
        const struct hsp_code *f = &x->s->part[part];
        for (size_t i = 0; i < f->n; i++) {
            for (uint8_t k = 0; k < f->step[i].n_out; k++) {
                uint32_t v = f->step[i].out[k];
                bool activation =
                    x->s->value[v].cls == HSP_CLASS_MICRO && x->s->value[v].param == HSP_NONE;
                x->maker[v] = activation ? part : HSP_NONE;
            }
        }
    }
}

/* Makes the copies in host memory of the tensors that @part, of Backward, reads. */
static enum hsp_status find_read(struct offload *x, uint32_t part)
{
    enum hsp_status rc = HSP_OK;
    for (size_t i = 0; rc == HSP_OK && i < x->s->part[part].n; i++) {
        const struct hsp_step *st = &x->s->part[part].step[i];
        for (uint8_t k = 0; rc == HSP_OK && k < st->n_in; k++) {
            uint32_t v = st->in[k];
            if (x->maker[v] != HSP_NONE && x->host[v] == HSP_NONE) {
                rc = copy_value(x, v, HSP_CLASS_HOST, "host", &x->host[v]);
            }
        }
    }
    return rc;
}

/* ---- where ---- */

static int by_place(const void *a, const void *b)
{
    const struct transit *p = a, *q = b;
    if (p->at != q->at) {
        return p->at < q->at ? -1 : 1;
    }
    if (p->use != q->use) {
        return p->use < q->use ? -1 : 1;
    }
    return p->value < q->value ? -1 : p->value > q->value;
}

/* Lists the copies in @part: of Forward, to the host; of Backward, to the device. */
static void find_transits(struct offload *x, uint32_t part)
{
    const struct hsp_code *code = &x->s->part[part];
    bool in = in_backward(part);
    memset(x->use, 0, x->n * sizeof *x->use);
    for (size_t i = 0; i < code->n; i++) {
        const struct hsp_step *st = &code->step[i];
        for (uint8_t k = 0; k < st->n_in + st->n_out; k++) {
            uint32_t v = k < st->n_in ? st->in[k] : st->out[k - st->n_in];
            bool here = v < x->n && x->host[v] != HSP_NONE && (in || x->maker[v] == part);
            if (here && (!in || x->use[v] == 0)) {
                x->use[v] = i + 1;
            }
        }
    }
    x->n_transits = 0;
    for (uint32_t v = 0; v < x->n; v++) {
        if (x->use[v] == 0) {
            continue;
        }
        struct transit t = {.use = x->use[v] - 1, .value = v};
        uint32_t run = x->run_of[t.use];
        if (in) {
            t.at = run == 0 ? 0 : x->run[run - 1].behind_op;
        } else {
            t.at = run + 2 < x->n_runs ? x->run[run + 2].first : code->n;
        }
        x->transit[x->n_transits++] = t;
    }
    qsort(x->transit, x->n_transits, sizeof *x->transit, by_place);
}

/* ---- the copies ---- */

static enum hsp_status add_copy(struct offload *x, uint32_t part, uint32_t value)
{
    struct hsp_step st = hsp_step_make(HSP_I_COPY, HSP_QUEUE_COMM);
    enum hsp_status rc = HSP_OK;
    st.n_in = st.n_out = 1;
    if (in_backward(part)) {
        bool late = hsp_part_kind(part) == HSP_PART_WGRAD;
        rc = copy_value(x, value, HSP_CLASS_MICRO, late ? "fetched2" : "fetched", &x->back[value]);
        st.in[0] = x->host[value];
        st.out[0] = x->back[value];
    } else {
        st.in[0] = value;
        st.out[0] = x->host[value];
    }
    return rc == HSP_OK ? hsp_step_add(x->s, part, SIZE_MAX, &st, x->err) : rc;
}

static void rename_inputs(const struct offload *x, struct hsp_step *st)
{
    for (uint8_t k = 0; k < st->n_in; k++) {
        uint32_t v = st->in[k];
        st->in[k] = v < x->n && x->back[v] != HSP_NONE ? x->back[v] : v;
    }
}

/* Writes @part again, with its copies. */
static enum hsp_status rewrite(struct offload *x, uint32_t part)
{
    struct hsp_code old = x->s->part[part];
    enum hsp_status rc = HSP_OK;
    uint32_t next = 0;
    x->n_runs = hsp_unit_runs(x->c, &old, x->run_of, x->run);
    find_transits(x, part);
    memset(x->back, 0xff, x->n * sizeof *x->back); /* HSP_NONE */
    x->s->part[part] = (struct hsp_code){0};
    for (size_t i = 0; rc == HSP_OK && i <= old.n; i++) {
        for (; rc == HSP_OK && next < x->n_transits && x->transit[next].at == i; next++) {
            rc = add_copy(x, part, x->transit[next].value);
        }
        if (rc == HSP_OK && i < old.n) {
            struct hsp_step st = old.step[i];
            rename_inputs(x, &st);
            rc = hsp_step_add(x->s, part, SIZE_MAX, &st, x->err);
        }
    }
    free(old.step);
    return rc;
}

static enum hsp_status alloc_tables(struct offload *x)
{
    size_t most = 0, n = (size_t)x->n + 1;
    for (uint32_t i = 0; i < x->s->n_parts; i++) {
        most = x->s->part[i].n > most ? x->s->part[i].n : most;
    }
    x->maker = malloc(n * sizeof *x->maker);
    x->host = malloc(n * sizeof *x->host);
    x->back = malloc(n * sizeof *x->back);
    x->use = malloc(n * sizeof *x->use);
    x->transit = malloc(n * sizeof *x->transit);
    x->run_of = malloc((most + 1) * sizeof *x->run_of);
    x->run = malloc((most + 1) * sizeof *x->run);
    if (x->maker == NULL || x->host == NULL || x->back == NULL || x->use == NULL ||
        x->transit == NULL || x->run_of == NULL || x->run == NULL) {
        return hsp_err_nomem(x->err, "offload of pipeline %u stage %u", x->s->pipeline,
                             x->s->stage);
    }
    memset(x->maker, 0xff, n * sizeof *x->maker); /* HSP_NONE */
    memset(x->host, 0xff, n * sizeof *x->host);
    return HSP_OK;
}

enum hsp_status hsp_offload_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                  struct hsp_err *err)
{
    struct offload x = {.c = c, .s = s, .n = (uint32_t)s->n_values, .err = err};
    enum hsp_status rc = alloc_tables(&x);
    if (rc == HSP_OK) {
        find_makers(&x);
    }
    for (uint32_t part = 0; rc == HSP_OK && part < s->n_parts; part++) {
        rc = in_backward(part) ? find_read(&x, part) : HSP_OK;
    }
    for (uint32_t part = 0; rc == HSP_OK && part < s->n_parts; part++) {
        if (in_backward(part) || hsp_part_kind(part) == HSP_PART_FORWARD) {
            rc = rewrite(&x, part);
        }
    }
    if (rc == HSP_OK) {
        hsp_parts_mark(s); /* a tensor on the device belongs to one part now */
    }
    free(x.maker);
    free(x.host);
    free(x.back);
    free(x.use);
    free(x.transit);
    free(x.run_of);
    free(x.run);
    return rc;
}
