#include "proto/wire/msg_encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/check.h"
#include "proto/wire/msg_table.h"

struct enc {
    const char *msg;
    struct hsp_buf *out;
    struct hsp_err *err;
};

static enum hsp_status encode_object(const struct enc *e, const struct hsp_wire_field *f,
                                     uint32_t n, const void *base);

static void put_u64(struct hsp_buf *out, uint64_t v)
{
    char text[20]; /* 2^64 has so many digits */
    size_t at = sizeof(text);
    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    hsp_buf_append(out, text + at, sizeof(text) - at);
}

/* Fifteen digits where they are enough. */
static void put_f64(struct hsp_buf *out, double v)
{
    char text[32];
    if (!isfinite(v)) {
        hsp_buf_puts(out, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    (void)snprintf(text, sizeof(text), "%1.15g", v); /* at most 24 characters */
    if (strtod(text, NULL) != v) {
        (void)snprintf(text, sizeof(text), "%1.17g", v);
    }
    hsp_buf_puts(out, text);
}

static void put_escaped(struct hsp_buf *out, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = strchr(from, c);
    if (at != NULL) {
        hsp_buf_u8(out, '\\');
        hsp_buf_u8(out, (uint8_t)to[at - from]);
    } else {
        hsp_buf_printf(out, "\\u%04x", c);
    }
}

static void put_text(struct hsp_buf *out, const char *s)
{
    hsp_buf_u8(out, '"');
    for (const char *run = s; *run != '\0'; run = s) {
        while ((unsigned char)*s >= 32 && *s != '"' && *s != '\\') {
            s++;
        }
        hsp_buf_append(out, run, (size_t)(s - run));
        if (*s != '\0') {
            put_escaped(out, (unsigned char)*s++);
        }
    }
    hsp_buf_u8(out, '"');
}

static void put_hex(struct hsp_buf *out, const uint8_t *in, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    hsp_buf_u8(out, '"');
    for (size_t i = 0; i < n; i++) {
        hsp_buf_u8(out, (uint8_t)digits[in[i] >> 4]);
        hsp_buf_u8(out, (uint8_t)digits[in[i] & 15]);
    }
    hsp_buf_u8(out, '"');
}

static enum hsp_status too_long(const struct enc *e, const struct hsp_wire_field *f, size_t have)
{
    return hsp_err_set(e->err, HSP_ELIMIT, 0, "%s.%s: %zu above limit %u", e->msg, f->name, have,
                       f->limit);
}

static enum hsp_status encode_array(const struct enc *e, const struct hsp_wire_field *f,
                                    const void *base)
{
    uint32_t n = hsp_field_u32(base, f->count_offset);
    const char *items = hsp_field_ptr(base, f->offset);
    if (n > f->limit) {
        return too_long(e, f, n);
    }
    hsp_buf_u8(e->out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) {
            hsp_buf_u8(e->out, ',');
        }
        if (f->type == HSP_F_F64S) {
            put_f64(e->out, hsp_field_f64(items, i * (uint32_t)sizeof(double)));
            continue;
        }
        enum hsp_status st = encode_object(e, f->sub, f->n_sub, items + (size_t)i * f->sub_size);
        if (st != HSP_OK) {
            return st;
        }
    }
    hsp_buf_u8(e->out, ']');
    return HSP_OK;
}

static enum hsp_status encode_field(const struct enc *e, const struct hsp_wire_field *f,
                                    const void *base)
{
    struct hsp_buf *out = e->out;
    switch (f->type) {
    case HSP_F_U32: {
        uint32_t v = hsp_field_u32(base, f->offset);
        if (f->limit != 0 && v > f->limit) {
            return too_long(e, f, v);
        }
        put_u64(out, v);
        return HSP_OK;
    }
    case HSP_F_U64:
        hsp_buf_u8(out, '"');
        put_u64(out, hsp_field_u64(base, f->offset));
        hsp_buf_u8(out, '"');
        return HSP_OK;
    case HSP_F_F64: put_f64(out, hsp_field_f64(base, f->offset)); return HSP_OK;
    case HSP_F_BOOL:
        hsp_buf_puts(out, hsp_field_bool(base, f->offset) ? "true" : "false");
        return HSP_OK;
    case HSP_F_STR: {
        const char *s = hsp_field_ptr(base, f->offset);
        s = s != NULL ? s : "";
        if (strlen(s) > f->limit) {
            return too_long(e, f, strlen(s));
        }
        put_text(out, s);
        return HSP_OK;
    }
    case HSP_F_ENUM: {
        uint32_t v = hsp_field_u32(base, f->offset);
        if (v >= f->limit) {
            return too_long(e, f, v);
        }
        put_text(out, f->names[v]);
        return HSP_OK;
    }
    case HSP_F_DIGEST: {
        struct hsp_digest d;
        char text[HSP_DIGEST_HEX];
        memcpy(&d, (const char *)base + f->offset, sizeof(d));
        hsp_digest_hex(d, text);
        put_text(out, text);
        return HSP_OK;
    }
    case HSP_F_KEY: put_hex(out, (const uint8_t *)base + f->offset, HSP_KEY_BYTES); return HSP_OK;
    case HSP_F_LIST:
    case HSP_F_F64S: return encode_array(e, f, base);
    }
    return HSP_EINVAL;
}

static enum hsp_status encode_object(const struct enc *e, const struct hsp_wire_field *f,
                                     uint32_t n, const void *base)
{
    enum hsp_status st = HSP_OK;
    hsp_buf_u8(e->out, '{');
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        if (i > 0) {
            hsp_buf_u8(e->out, ',');
        }
        put_text(e->out, f[i].name);
        hsp_buf_u8(e->out, ':');
        st = encode_field(e, &f[i], base);
    }
    hsp_buf_u8(e->out, '}');
    return st;
}

enum hsp_status hsp_msg_encode(const struct hsp_msg *m, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_msg_desc *d = hsp_msg_desc_of(m->type);
    HSP_ASSERT(d != NULL); /* a message we make ourselves */
    if (m->blob_len > hsp_msg_blob_max(m->type)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%s: blob of %u bytes above limit %u", d->name,
                           m->blob_len, hsp_msg_blob_max(m->type));
    }
    const struct enc e = {d->name, out, err};
    size_t before = out->len;
    enum hsp_status st = encode_object(&e, d->fields, d->n_fields, &m->u);
    if (st == HSP_OK && out->nomem) {
        st = hsp_err_nomem(err, "the message %s", d->name);
    }
    if (st == HSP_OK && (out->failed || out->len - before > HSP_MSG_BODY_MAX)) {
        st = hsp_err_set(err, HSP_ELIMIT, 0, "%s: the body does not fit into %zu bytes", d->name,
                         out->max < HSP_MSG_BODY_MAX ? out->max : (size_t)HSP_MSG_BODY_MAX);
    }
    if (st != HSP_OK) {
        out->len = before;
    }
    return st;
}
