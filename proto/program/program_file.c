#include "proto/program/program_file.h"

#include "proto/program/binding_codec.h"
#include "proto/program/program_io.h"
#include "proto/program/template_codec.h"

#include <stdlib.h> /* calloc, free */
#include <string.h> /* memcpy */

#include "proto/program/pool.h"

#define FILE_MAGIC       0x46505348u /* "HSPF" */
#define FILE_VERSION     2u
#define MAX_PATH_BYTES   4096
#define MAX_CONFIG_BYTES 65536

/* The distinct templates of a file, in order of first use. */
struct template_set {
    const struct hsp_template **t; /* owned array, borrowed elements */
    uint32_t n;
};

static uint32_t set_find(const struct template_set *s, struct hsp_digest d)
{
    for (uint32_t k = 0; k < s->n; k++) {
        if (hsp_digest_equal(s->t[k]->digest, d)) {
            return k;
        }
    }
    return s->n;
}

static void put_programs(struct hsp_buf *out, const struct template_set *s, uint32_t n,
                         const struct hsp_program *p, enum hsp_status *st)
{
    hsp_buf_u32(out, n);
    for (uint32_t k = 0; k < n && *st == HSP_OK; k++) {
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_MAX_BINDING_BYTES);
        *st = hsp_binding_encode(&p[k].tpl, &p[k].bind, &b);
        hsp_buf_u32(out, set_find(s, p[k].tpl.digest));
        hsp_buf_blob(out, b.data, b.len);
        hsp_buf_fini(&b);
    }
}

static void put_templates(struct hsp_buf *out, const struct template_set *s, enum hsp_status *st)
{
    hsp_buf_u32(out, s->n);
    for (uint32_t k = 0; k < s->n && *st == HSP_OK; k++) {
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_MAX_TEMPLATE_BYTES);
        *st = hsp_template_encode(s->t[k], &b);
        hsp_buf_blob(out, b.data, b.len);
        hsp_buf_fini(&b);
    }
}

static void collect(struct template_set *s, const struct hsp_program *p, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (set_find(s, p[k].tpl.digest) == s->n) {
            s->t[s->n++] = &p[k].tpl;
        }
    }
}

enum hsp_status hsp_program_file_encode(const struct hsp_program_file *f, struct hsp_buf *out)
{
    struct template_set s = {
        .t = calloc((size_t)f->n * (f->n_shorter + 1) + f->n_ref + 1, sizeof(*s.t))};
    if (!s.t) {
        return HSP_ENOMEM;
    }
    collect(&s, f->programs, f->n);
    collect(&s, f->shorter, f->n_shorter * f->n);
    collect(&s, f->ref, f->n_ref);
    enum hsp_status st = HSP_OK;
    hsp_buf_u32(out, FILE_MAGIC);
    hsp_buf_u32(out, FILE_VERSION);
    put_templates(out, &s, &st);
    put_programs(out, &s, f->n, f->programs, &st);
    hsp_buf_u32(out, f->n_shorter);
    for (uint32_t k = 0; k < f->n_shorter; k++) {
        put_programs(out, &s, f->n, f->shorter + (size_t)k * f->n, &st);
    }
    put_programs(out, &s, f->n_ref, f->ref, &st);
    hsp_buf_str(out, f->data_path ? f->data_path : "");
    hsp_buf_str(out, f->out_dir ? f->out_dir : "");
    hsp_buf_str(out, f->init_from ? f->init_from : "");
    hsp_buf_str(out, f->config_json ? f->config_json : "");
    free(s.t);
    return st != HSP_OK ? st : hsp_buf_status(out);
}

/* Reader of a file: the decoded templates and where we are. */
struct file_reader {
    struct hsp_cursor *in;
    struct hsp_arena *arena;
    struct hsp_template *t;
    uint32_t n;
};

static enum hsp_status get_templates(struct file_reader *r, struct hsp_err *err)
{
    r->n = hsp_cur_count(r->in, (HSP_MAX_POOL + 1) * HSP_MAX_PROGRAM_RANKS, 4);
    r->t = hsp_arena_array(r->arena, r->n, sizeof(*r->t));
    if (!r->t) {
        return hsp_err_nomem(err, "a program file");
    }
    for (uint32_t k = 0; k < r->n; k++) {
        size_t len;
        const uint8_t *data = hsp_cur_blob(r->in, HSP_MAX_TEMPLATE_BYTES, &len);
        if (!data) {
            return hsp_err_set(err, HSP_EPARSE, 0, "program file: template %u is cut short", k);
        }
        if (hsp_template_decode(data, len, r->arena, &r->t[k], err) != HSP_OK) {
            return hsp_err_wrap(err, "program file, template %u", k);
        }
    }
    return HSP_OK;
}

static enum hsp_status get_programs(struct file_reader *r, uint32_t max, uint32_t *ret_n,
                                    struct hsp_program **ret, struct hsp_err *err)
{
    uint32_t n = hsp_cur_count(r->in, max, 8);
    struct hsp_program *p = hsp_arena_array(r->arena, n, sizeof(*p));
    if (!p) {
        return hsp_err_nomem(err, "a program file");
    }
    for (uint32_t k = 0; k < n; k++) {
        size_t len;
        uint32_t t = hsp_cur_u32(r->in);
        const uint8_t *data = hsp_cur_blob(r->in, HSP_MAX_BINDING_BYTES, &len);
        if (!data || t >= r->n) {
            return hsp_err_set(err, HSP_EPARSE, 0, "program file: program %u is malformed", k);
        }
        p[k].tpl = r->t[t];
        if (hsp_binding_decode(data, len, &p[k].tpl, r->arena, &p[k].bind, err) != HSP_OK) {
            return hsp_err_wrap(err, "program file, program %u", k);
        }
        if (p[k].bind.rank != k || p[k].bind.n_ranks != n) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "program file: program %u of %u says it is rank %u of %u", k, n,
                               p[k].bind.rank, p[k].bind.n_ranks);
        }
    }
    *ret_n = n;
    *ret = p;
    return HSP_OK;
}

/* The further plans of a pool, behind the programs of the longest one. */
static enum hsp_status get_shorter(struct file_reader *r, struct hsp_program_file *f,
                                   struct hsp_err *err)
{
    f->n_shorter = hsp_cur_count(r->in, HSP_MAX_POOL, 4);
    f->shorter = hsp_arena_array(r->arena, (size_t)f->n_shorter * f->n, sizeof(*f->shorter));
    if (!f->shorter) {
        return hsp_err_nomem(err, "a program file");
    }
    for (uint32_t k = 0; k < f->n_shorter; k++) {
        uint32_t n = 0;
        struct hsp_program *p = NULL;
        enum hsp_status st = get_programs(r, HSP_MAX_PROGRAM_RANKS, &n, &p, err);
        if (st == HSP_OK && n != f->n) {
            st = hsp_err_set(err, HSP_EPARSE, 0, "program file: plans of %u and %u devices", f->n,
                             n);
        }
        if (st != HSP_OK) {
            return st;
        }
        memcpy(f->shorter + (size_t)k * n, p, n * sizeof(*p));
    }
    for (uint32_t rank = 0; rank < f->n; rank++) {
        const struct hsp_program *of[HSP_MAX_POOL];
        for (uint32_t k = 0; k < f->n_shorter; k++) {
            of[k] = &f->shorter[(size_t)k * f->n + rank];
        }
        if (hsp_pool_check(&f->programs[rank], of, f->n_shorter, err) != HSP_OK) {
            return hsp_err_wrap(err, "program file, rank %u", rank);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_program_file_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                        struct hsp_program_file *ret, struct hsp_err *err)
{
    struct hsp_cursor in;
    hsp_cur_init(&in, data, len);
    uint32_t magic = hsp_cur_u32(&in), version = hsp_cur_u32(&in);
    if (magic != FILE_MAGIC) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "not a program file; hspmdctl compile JOB.yaml -o FILE makes one");
    }
    if (version != FILE_VERSION) {
        return hsp_err_set(err, HSP_EVERSION, 0,
                           "program file of version %u; this program reads %u", version,
                           FILE_VERSION);
    }
    struct hsp_program_file f = {0};
    struct file_reader r = {.in = &in, .arena = arena};
    enum hsp_status st = get_templates(&r, err);
    if (st == HSP_OK) {
        st = get_programs(&r, HSP_MAX_PROGRAM_RANKS, &f.n, &f.programs, err);
    }
    if (st == HSP_OK) {
        st = get_shorter(&r, &f, err);
    }
    if (st == HSP_OK) {
        st = get_programs(&r, 1, &f.n_ref, &f.ref, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    f.data_path = hsp_cur_str(&in, MAX_PATH_BYTES, arena);
    f.out_dir = hsp_cur_str(&in, MAX_PATH_BYTES, arena);
    f.init_from = hsp_cur_str(&in, MAX_PATH_BYTES, arena);
    f.config_json = hsp_cur_str(&in, MAX_CONFIG_BYTES, arena);
    if (in.nomem) {
        return hsp_err_nomem(err, "a program file");
    }
    if (!hsp_cur_done(&in)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "program file: malformed end at byte %zu of %zu",
                           in.pos, in.len);
    }
    if (f.n == 0) {
        return hsp_err_set(err, HSP_EPARSE, 0, "program file: no programs");
    }
    *ret = f;
    return HSP_OK;
}
