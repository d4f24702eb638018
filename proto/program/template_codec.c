#include "proto/program/template_codec.h"

#include "proto/program/program_check.h"
#include "proto/program/program_io.h"

#define TEMPLATE_MAGIC   0x54505348u /* "HSPT" */
#define TEMPLATE_VERSION 3u

/* The least bytes that one element takes when encoded. They bound the length of an array that a
 * short input can ask for. */
enum { MIN_SYMBOL = 4, MIN_TENSOR = 8, MIN_INSTR = 73, MIN_PIECE = 9, MIN_SEGMENT = 13 };

static void io_tensor(struct hsp_pio *io, struct hsp_ptensor *t)
{
    hsp_pio_str(io, &t->name, HSP_MAX_NAME, "tensor name");
    hsp_pio_u8(io, &t->dtype);
    hsp_pio_u8(io, &t->cls);
    hsp_pio_u8(io, &t->rank);
    hsp_pio_u8(io, &t->state_kind);
    if (t->rank > HSP_MAX_RANK) {
        hsp_pio_fail(io, "tensor rank");
        t->rank = 0;
    }
    for (uint8_t d = 0; d < t->rank; d++) {
        hsp_pio_u32(io, &t->sym[d]);
    }
}

static void io_instr(struct hsp_pio *io, struct hsp_instr *i)
{
    hsp_pio_u8(io, &i->kind);
    hsp_pio_u8(io, &i->op);
    hsp_pio_u8(io, &i->queue);
    hsp_pio_u8(io, &i->n_in);
    hsp_pio_u8(io, &i->n_out);
    if (i->n_in > HSP_MAX_IN || i->n_out > HSP_MAX_OUT) {
        hsp_pio_fail(io, "operands of an instruction");
        i->n_in = i->n_out = 0;
    }
    for (uint8_t k = 0; k < i->n_in; k++) {
        hsp_pio_u32(io, &i->in[k]);
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        hsp_pio_u32(io, &i->out[k]);
    }
    hsp_pio_u32(io, &i->arg);
    hsp_pio_u32(io, &i->node);
    for (int k = 0; k < HSP_N_ATTR_I; k++) {
        hsp_pio_i64(io, &i->at.i[k]);
    }
    for (int k = 0; k < 4; k++) {
        hsp_pio_f64(io, &i->at.f[k]);
    }
    hsp_pio_u32(io, &i->unit_sym);
    hsp_pio_u32(io, &i->origin_sym[0]);
    hsp_pio_u32(io, &i->origin_sym[1]);
}

static void io_pieces(struct hsp_pio *io, struct hsp_template *t)
{
    t->pieces = hsp_pio_array(io, &t->n_pieces, t->pieces, sizeof(*t->pieces), HSP_MAX_INSTRS,
                              MIN_PIECE, "pieces");
    for (uint32_t k = 0; k < t->n_pieces && hsp_pio_ok(io); k++) {
        hsp_pio_u32(io, &t->pieces[k].first);
        hsp_pio_u32(io, &t->pieces[k].n);
        hsp_pio_u8(io, &t->pieces[k].queue);
    }
    t->segments = hsp_pio_array(io, &t->n_segments, t->segments, sizeof(*t->segments),
                                HSP_MAX_SEGMENTS, MIN_SEGMENT, "segments");
    for (uint32_t k = 0; k < t->n_segments && hsp_pio_ok(io); k++) {
        struct hsp_segment *s = &t->segments[k];
        hsp_pio_u8(io, &s->kind);
        hsp_pio_u32(io, &s->chunk);
        hsp_pio_u32(io, &s->first_piece);
        hsp_pio_u32(io, &s->n_pieces);
    }
}

static void io_template(struct hsp_pio *io, struct hsp_template *t)
{
    hsp_pio_header(io, TEMPLATE_MAGIC, TEMPLATE_VERSION, "header or version");
    t->symbols = hsp_pio_array(io, &t->n_symbols, t->symbols, sizeof(*t->symbols), HSP_MAX_SYMBOLS,
                               MIN_SYMBOL, "symbols");
    for (uint32_t k = 0; k < t->n_symbols && hsp_pio_ok(io); k++) {
        hsp_pio_str(io, &t->symbols[k].name, HSP_MAX_NAME, "symbol name");
    }
    t->tensors = hsp_pio_array(io, &t->n_tensors, t->tensors, sizeof(*t->tensors), HSP_MAX_TENSORS,
                               MIN_TENSOR, "tensors");
    for (uint32_t k = 0; k < t->n_tensors && hsp_pio_ok(io); k++) {
        io_tensor(io, &t->tensors[k]);
    }
    t->instrs = hsp_pio_array(io, &t->n_instrs, t->instrs, sizeof(*t->instrs), HSP_MAX_INSTRS,
                              MIN_INSTR, "instructions");
    for (uint32_t k = 0; k < t->n_instrs && hsp_pio_ok(io); k++) {
        io_instr(io, &t->instrs[k]);
    }
    io_pieces(io, t);
    hsp_pio_u32(io, &t->n_reshards);
}

enum hsp_status hsp_template_encode(const struct hsp_template *t, struct hsp_buf *out)
{
    struct hsp_template view = *t; /* the walk writes pointers back; contents stay untouched */
    struct hsp_pio io = {.out = out};
    io_template(&io, &view);
    return hsp_pio_end(&io, "template", NULL);
}

enum hsp_status hsp_template_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                    struct hsp_template *ret, struct hsp_err *err)
{
    struct hsp_cursor cur;
    hsp_cur_init(&cur, data, len);
    struct hsp_pio io = {.in = &cur, .arena = arena};
    struct hsp_template t = {0};
    io_template(&io, &t);
    enum hsp_status st = hsp_pio_end(&io, "template", err);
    if (st == HSP_OK) {
        st = hsp_template_check(&t, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    t.digest = hsp_hash128(data, len);
    *ret = t;
    return HSP_OK;
}

enum hsp_status hsp_template_digest(const struct hsp_template *t, struct hsp_digest *ret)
{
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_MAX_TEMPLATE_BYTES);
    enum hsp_status st = hsp_template_encode(t, &b);
    if (st == HSP_OK) {
        *ret = hsp_hash128(b.data, b.len);
    }
    hsp_buf_fini(&b);
    return st;
}
