#include "tests/unit/daemon/spmd/place_cost.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "proto/layout/box.h"
#include "tests/lib/testlib.h"

#define ARENA_BYTES ((size_t)1 << 28)

static int64_t bytes_sent(const struct hsp_moves *m, int64_t elem)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_move *v = &m->move[i];
        int64_t peers = (int64_t)v->n_ranks - 1;
        for (uint32_t k = 0; k < v->n_cells; k++) {
            n += hsp_box_count(&v->cells[k].box) * elem *
                 (v->kind == HSP_MOVE_COPY         ? 0
                  : v->kind == HSP_MOVE_P2P        ? 1
                  : v->kind == HSP_MOVE_ALL_REDUCE ? 2 * peers
                                                   : peers);
        }
    }
    return n;
}

bool place_counts(uint32_t part)
{
    enum hsp_part kind = hsp_part_kind(part);
    return kind == HSP_PART_FORWARD || kind == HSP_PART_BACKWARD || kind == HSP_PART_WGRAD;
}

static void count_part(const struct hsp_compiler *c, const struct hsp_stagecode *s, uint32_t part,
                       bool *seen, struct place_cost *ret)
{
    int64_t times = (int64_t)c->p->pipelines[s->pipeline].micro_batches;
    for (size_t i = 0; place_counts(part) && i < s->part[part].n; i++) {
        const struct hsp_step *st = &s->part[part].step[i];
        if (st->kind != HSP_I_RESHARD || seen[st->arg]) {
            continue;
        }
        uint32_t v = st->n_out > 0 ? st->out[0] : st->in[0];
        int64_t elem = (int64_t)hsp_dtype_size((enum hsp_dtype)s->value[v].dtype);
        int64_t sent = times * bytes_sent(&c->reshard[st->arg].moves, elem);
        seen[st->arg] = true;
        ret->sent += sent;
        ret->reshards++;
        ret->hash = ret->hash * 31 + (uint64_t)sent + part;
    }
}

struct place_cost place_cost(const struct place_run *r)
{
    const struct hsp_compiler *c = &r->c;
    struct place_cost ret = {0};
    bool *seen = calloc(c->n_reshards + 1, sizeof *seen);
    assert_non_null(seen);
    for (uint32_t k = 0; k < c->n_stages; k++) {
        for (uint32_t i = 0; i < c->stage[k].n_parts; i++) {
            count_part(c, &c->stage[k], i, seen, &ret);
        }
    }
    free(seen);
    return ret;
}

enum hsp_status place_make(const struct plan_model *m, const char *text, const bool *first,
                           const struct hsp_forced *forced, struct place_run *ret)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    ret->arena = hsp_arena_new(ARENA_BYTES);
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", PLAN_BATCH, ret->arena, &p, &err), &err);
    ret->c = (struct hsp_compiler){.g = m->g,
                                   .p = p,
                                   .t = &m->t,
                                   .arena = ret->arena,
                                   .forced_first = first,
                                   .forced = forced};
    enum hsp_status rc = hsp_layouts_make(&ret->c, &err);
    if (rc != HSP_EUNSUPPORTED || forced == NULL) {
        assert_ok(rc, &err);
    }
    return rc;
}

void place_free(struct place_run *r)
{
    hsp_layouts_fini(&r->c);
    r->arena = hsp_arena_free(r->arena);
}

struct place_cost place_lower(const struct plan_model *m, const char *text, const bool *first)
{
    struct place_run r;
    assert_int_equal(place_make(m, text, first, NULL, &r), HSP_OK);
    struct place_cost ret = place_cost(&r);
    place_free(&r);
    return ret;
}
