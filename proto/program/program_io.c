#include "proto/program/program_io.h"

void hsp_pio_fail(struct hsp_pio *io, const char *what)
{
    if (!io->what) {
        io->what = what;
    }
    if (io->in) {
        io->in->failed = true; /* I2 */
    }
}

/* Bytes are written out: compilers make one move of four. */
void hsp_pio_u32s(struct hsp_pio *io, uint32_t *v, size_t n)
{
    struct hsp_buf *b = io->out;
    if (!hsp_pio_ok(io)) {
        return;
    }
    if (b != NULL && hsp_buf_grow(b, 4 * n)) {
        uint8_t *p = b->data + b->len;
        for (size_t i = 0; i < n; i++) {
            uint32_t x = v[i];
            p[4 * i] = (uint8_t)x;
            p[4 * i + 1] = (uint8_t)(x >> 8);
            p[4 * i + 2] = (uint8_t)(x >> 16);
            p[4 * i + 3] = (uint8_t)(x >> 24);
        }
        b->len += 4 * n;
    }
    for (size_t i = 0; b == NULL && i < n; i++) {
        v[i] = hsp_cur_u32(io->in);
    }
}

void hsp_pio_bool(struct hsp_pio *io, bool *v)
{
    uint8_t b = io->out && *v ? 1 : 0;
    hsp_pio_u8(io, &b);
    if (b > 1) {
        hsp_pio_fail(io, "truth value");
        b = 0;
    }
    if (io->in) {
        *v = b == 1;
    }
}

void hsp_pio_f64(struct hsp_pio *io, double *v)
{
    if (io->out) {
        hsp_buf_f64(io->out, *v);
    } else {
        *v = hsp_cur_f64(io->in);
    }
}

void hsp_pio_digest(struct hsp_pio *io, struct hsp_digest *d)
{
    hsp_pio_u64(io, &d->hi);
    hsp_pio_u64(io, &d->lo);
}

void hsp_pio_box(struct hsp_pio *io, struct hsp_box *b)
{
    hsp_pio_u8(io, &b->rank);
    if (b->rank > HSP_MAX_RANK) {
        hsp_pio_fail(io, "rank of a box");
        b->rank = 0;
    }
    for (uint8_t d = 0; d < b->rank; d++) {
        hsp_pio_i64(io, &b->lo[d]);
        hsp_pio_i64(io, &b->hi[d]);
    }
}

void hsp_pio_str(struct hsp_pio *io, const char **s, size_t max, const char *what)
{
    if (io->out) {
        hsp_buf_str(io->out, *s ? *s : "");
        return;
    }
    *s = hsp_cur_str(io->in, max, io->arena);
    if (io->in->failed) {
        io->nomem = io->nomem || io->in->nomem;
        hsp_pio_fail(io, what);
    }
}

void *hsp_pio_array(struct hsp_pio *io, uint32_t *n, void *array, size_t elem, uint32_t max,
                    size_t min_bytes, const char *what)
{
    if (io->out) {
        if (*n > max) {
            hsp_pio_fail(io, what);
            return NULL;
        }
        hsp_buf_u32(io->out, *n);
        return array;
    }
    *n = hsp_cur_count(io->in, max, min_bytes);
    if (io->in->failed) {
        hsp_pio_fail(io, what);
        *n = 0;
    }
    if (*n == 0) {
        return NULL;
    }
    void *p = hsp_arena_array(io->arena, *n, elem);
    if (!p) {
        hsp_pio_fail(io, what);
        io->nomem = true;
        *n = 0;
    }
    return p;
}

void hsp_pio_magic(struct hsp_pio *io, uint32_t magic, uint32_t *version, const char *what)
{
    uint32_t m = magic;
    hsp_pio_u32(io, &m);
    hsp_pio_u32(io, version);
    if (m != magic) {
        hsp_pio_fail(io, what);
    }
}

void hsp_pio_header(struct hsp_pio *io, uint32_t magic, uint32_t version, const char *what)
{
    uint32_t v = version;
    hsp_pio_magic(io, magic, &v, what);
    if (v != version) {
        hsp_pio_fail(io, what);
    }
}

enum hsp_status hsp_pio_end(struct hsp_pio *io, const char *what, struct hsp_err *err)
{
    if (io->nomem) {
        return hsp_err_nomem(err, "%s, at the %s", what, io->what);
    }
    if (io->out) {
        if (io->what) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "%s: too large at the %s", what, io->what);
        }
        if (io->out->nomem) {
            return hsp_err_nomem(err, "%s", what);
        }
        return io->out->failed ? hsp_err_set(err, HSP_ELIMIT, 0, "%s: longer than %zu bytes", what,
                                             io->out->max)
                               : HSP_OK;
    }
    if (io->what) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%s: malformed %s before byte %zu", what, io->what,
                           io->in->pos);
    }
    if (!hsp_cur_done(io->in)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "%s: %s at byte %zu of %zu", what,
                           io->in->failed ? "cut short" : "bytes left over", io->in->pos,
                           io->in->len);
    }
    return HSP_OK;
}
