#include "daemon/spmd/lower/split_backward.h"

#include <stdlib.h>

#include "daemon/spmd/lower/stage_ir.h"

struct splitter {
    struct hsp_stagecode *s;
    uint32_t part;
    bool *wanted; /* [value]: read by a step that stays, or outside of the part; owned */
    bool *made;   /* [value]: by a step that stays; owned */
    bool *stays;  /* [step]; owned */
};

static void want_inputs(struct splitter *x, const struct hsp_step *st)
{
    for (uint8_t k = 0; k < st->n_in; k++) {
        x->wanted[st->in[k]] = true;
    }
}

/* Whether somebody else waits for the step: another stage, or a step that stays. */
static bool must_stay(const struct splitter *x, const struct hsp_step *st)
{
    bool stays = st->kind == HSP_I_RESHARD && (st->n_in == 0 || st->n_out == 0);
    for (uint8_t k = 0; k < st->n_out && st->kind != HSP_I_ACC; k++) {
        stays = stays || x->wanted[st->out[k]];
    }
    return stays;
}

static void find_staying(struct splitter *x)
{
    const struct hsp_code *b = &x->s->part[x->part];
    for (uint32_t part = 0; part < x->s->n_parts; part++) {
        for (size_t i = 0; part != x->part && i < x->s->part[part].n; i++) {
            want_inputs(x, &x->s->part[part].step[i]);
        }
    }
    for (size_t i = b->n; i-- > 0;) { /* readers stand behind makers */
        const struct hsp_step *st = &b->step[i];
        x->stays[i] = must_stay(x, st);
        if (x->stays[i]) {
            want_inputs(x, st);
        }
        for (uint8_t k = 0; x->stays[i] && k < st->n_out; k++) {
            x->made[st->out[k]] = true;
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        if (b->step[i].kind == HSP_I_ACC) {
            x->stays[i] = x->made[b->step[i].in[0]];
        }
    }
}

static enum hsp_status move_steps(struct splitter *x, uint32_t to, struct hsp_err *err)
{
    struct hsp_code *b = &x->s->part[x->part];
    enum hsp_status rc = HSP_OK;
    size_t n = 0;
    for (size_t i = 0; rc == HSP_OK && i < b->n; i++) {
        if (x->stays[i]) {
            b->step[n++] = b->step[i];
        } else {
            rc = hsp_step_add(x->s, to, SIZE_MAX, &b->step[i], err);
        }
    }
    b->n = n;
    return rc;
}

static enum hsp_status split_chunk(struct hsp_stagecode *s, uint32_t chunk, struct hsp_err *err)
{
    struct splitter x = {.s = s, .part = hsp_part_at(HSP_PART_BACKWARD, chunk)};
    enum hsp_status rc = HSP_OK;
    x.wanted = calloc(s->n_values + 1, sizeof *x.wanted);
    x.made = calloc(s->n_values + 1, sizeof *x.made);
    x.stays = calloc(s->part[x.part].n + 1, sizeof *x.stays);
    if (x.wanted == NULL || x.made == NULL || x.stays == NULL) {
        rc = hsp_err_nomem(err, "backward of pipeline %u stage %u", s->pipeline, s->stage);
    } else {
        find_staying(&x);
        rc = move_steps(&x, hsp_part_at(HSP_PART_WGRAD, chunk), err);
    }
    free(x.wanted);
    free(x.made);
    free(x.stays);
    return rc;
}

enum hsp_status hsp_split_backward(struct hsp_stagecode *s, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_chunks; i++) {
        rc = split_chunk(s, i, err);
    }
    if (rc == HSP_OK) {
        hsp_parts_mark(s);
    }
    return rc;
}
