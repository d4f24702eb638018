#include "daemon/spmd/codegen/template_cache.h"

#include <stdlib.h>

#include "daemon/spmd/codegen/template_builder.h"
#include "proto/base/vec.h"

#define KEPT_BYTES ((size_t)512 << 20)
#define MAX_MOULDS ((size_t)HSP_MAX_PROGRAM_RANKS * (HSP_MAX_POOL + 1))

/* Two compiles: a device that goes and comes back finds the templates of before. */
enum { KEPT_COMPILES = 2 };

struct hsp_templates {
    struct { /* newest first */
        struct hsp_arena *arena;
        struct hsp_traced_template *of;
        size_t n;
    } compile[KEPT_COMPILES];
    struct hsp_template_count count;
};

static bool copy_names(struct hsp_arena *a, struct hsp_template *t)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < t->n_symbols; i++) {
        t->symbols[i].name = hsp_arena_strdup(a, t->symbols[i].name);
        ok = t->symbols[i].name != NULL;
    }
    for (uint32_t i = 0; ok && i < t->n_tensors; i++) {
        t->tensors[i].name = hsp_arena_strdup(a, t->tensors[i].name);
        ok = t->tensors[i].name != NULL;
    }
    return ok;
}

/* False without memory. */
static bool copy_traced(struct hsp_arena *a, const struct hsp_traced_template *from,
                        struct hsp_traced_template *ret)
{
    struct hsp_traced_template m = *from;
    struct hsp_template *t = &m.tpl;
    t->symbols = hsp_arena_memdup(a, t->symbols, t->n_symbols * sizeof *t->symbols);
    t->tensors = hsp_arena_memdup(a, t->tensors, t->n_tensors * sizeof *t->tensors);
    t->instrs = hsp_arena_memdup(a, t->instrs, t->n_instrs * sizeof *t->instrs);
    t->pieces = hsp_arena_memdup(a, t->pieces, t->n_pieces * sizeof *t->pieces);
    t->segments = hsp_arena_memdup(a, t->segments, t->n_segments * sizeof *t->segments);
    m.value_of = hsp_arena_memdup(a, m.value_of, t->n_tensors * sizeof *m.value_of);
    m.symbol_of = hsp_arena_memdup(a, m.symbol_of, t->n_symbols * sizeof *m.symbol_of);
    *ret = m;
    return t->symbols != NULL && t->tensors != NULL && t->instrs != NULL && t->pieces != NULL &&
           t->segments != NULL && m.value_of != NULL && m.symbol_of != NULL && copy_names(a, t);
}

static const struct hsp_traced_template *find(const struct hsp_traced_template *of, size_t n,
                                              struct hsp_digest key)
{
    for (size_t i = 0; i < n; i++) {
        if (hsp_digest_equal(of[i].key, key)) {
            return &of[i];
        }
    }
    return NULL;
}

static const struct hsp_traced_template *find_kept(const struct hsp_templates *k,
                                                   struct hsp_digest key)
{
    const struct hsp_traced_template *m = NULL;
    for (int i = 0; k != NULL && m == NULL && i < KEPT_COMPILES; i++) {
        m = find(k->compile[i].of, k->compile[i].n, key);
    }
    return m;
}

enum hsp_status hsp_traced_template_get(struct hsp_compiler *c, const struct hsp_member_code *code,
                                        const struct hsp_traced_template **ret, struct hsp_err *err)
{
    struct hsp_traced_templates *m = c->traced_templates;
    enum hsp_status rc = HSP_OK;
    *ret = find(m->of, m->n, code->key);
    if (*ret != NULL) {
        return HSP_OK;
    }
    if (!hsp_grow(&m->of, &m->cap, m->n + 1, sizeof *m->of, MAX_MOULDS)) {
        return hsp_grow_error(m->n + 1, MAX_MOULDS, "templates", err);
    }
    struct hsp_traced_template *traced = &m->of[m->n];
    const struct hsp_traced_template *kept = find_kept(c->kept, code->key);
    if (kept != NULL) {
        rc = copy_traced(c->arena, kept, traced) ? HSP_OK : hsp_err_nomem(err, "the compilation");
        m->count.kept++;
    } else {
        rc = hsp_traced_template_make(c, code, traced, err);
        m->count.made++;
    }
    if (rc == HSP_OK) {
        m->n++;
        *ret = traced;
    }
    return rc;
}

struct hsp_templates *hsp_templates_new(void)
{
    return calloc(1, sizeof(struct hsp_templates));
}

struct hsp_templates *hsp_templates_free(struct hsp_templates *k)
{
    for (int i = 0; k != NULL && i < KEPT_COMPILES; i++) {
        (void)hsp_arena_free(k->compile[i].arena);
    }
    free(k);
    return NULL;
}

struct hsp_template_count hsp_templates_count(const struct hsp_templates *k)
{
    return k->count;
}

void hsp_templates_renew(struct hsp_templates *k, const struct hsp_traced_templates *m)
{
    struct hsp_arena *a = hsp_arena_new(KEPT_BYTES);
    struct hsp_traced_template *of = a != NULL ? hsp_arena_array(a, m->n, sizeof *of) : NULL;
    bool ok = of != NULL;
    for (size_t i = 0; ok && i < m->n; i++) {
        ok = copy_traced(a, &m->of[i], &of[i]);
    }
    k->count = m->count;
    k->count.stored = ok;
    if (!ok) {
        (void)hsp_arena_free(a);
        return;
    }
    (void)hsp_arena_free(k->compile[KEPT_COMPILES - 1].arena);
    for (int i = KEPT_COMPILES - 1; i > 0; i--) {
        k->compile[i] = k->compile[i - 1];
    }
    k->compile[0].arena = a;
    k->compile[0].of = of;
    k->compile[0].n = m->n;
}
