/* Decodes, clones and dumps messages, driven by msg_table.c as the encoder is (msg_encode.c). A
 * decoder error names the message and the field: "prepare.device: missing". */
#include "proto/wire/msg.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "proto/base/check.h"
#include "proto/base/str.h"
#include "proto/wire/msg_table.h"

const char *hsp_msg_name(uint16_t type)
{
    const struct hsp_msg_desc *d = hsp_msg_desc_of(type);
    return d != NULL ? d->name : NULL;
}

/* See msg_table.h on memcpy. */
static void put(void *base, uint32_t off, const void *v, size_t n)
{
    memcpy((char *)base + off, v, n);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_read(const char *s, uint8_t *out, size_t n)
{
    if (strlen(s) != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);
        if (hi < 0 || lo < 0) {
            return false;
        }
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

/* ---- decode ---- */

struct dec {
    const char *msg;
    uint8_t version; /* the newest that the sender speaks */
    struct hsp_arena *arena;
    struct hsp_err *err;
};

static enum hsp_status bad(const struct dec *d, const char *field, const char *what)
{
    return hsp_err_set(d->err, HSP_EPROTO, 0, "%s.%.64s: %s", d->msg, field, what);
}

static enum hsp_status decode_object(const struct dec *d, const struct hsp_wire_field *f,
                                     uint32_t n, const cJSON *o, void *base);

static bool decode_f64(const cJSON *v, double *ret)
{
    if (cJSON_IsNumber(v) && isfinite(v->valuedouble)) {
        *ret = v->valuedouble;
        return true;
    }
    if (!cJSON_IsString(v)) {
        return false;
    }
    if (strcmp(v->valuestring, "nan") == 0) {
        *ret = (double)NAN;
    } else if (strcmp(v->valuestring, "inf") == 0) {
        *ret = (double)INFINITY;
    } else if (strcmp(v->valuestring, "-inf") == 0) {
        *ret = -(double)INFINITY;
    } else {
        return false;
    }
    return true;
}

static enum hsp_status decode_array(const struct dec *d, const struct hsp_wire_field *f,
                                    const cJSON *v, void *base)
{
    if (!cJSON_IsArray(v)) {
        return bad(d, f->name, "not an array");
    }
    uint32_t n = 0;
    for (const cJSON *i = v->child; i != NULL; i = i->next) {
        if (++n > f->limit) {
            return bad(d, f->name, "too many items");
        }
    }
    size_t size = f->type == HSP_F_F64S ? sizeof(double) : f->sub_size;
    char *items = hsp_arena_array(d->arena, n, size);
    if (items == NULL) {
        return hsp_err_nomem(d->err, "the message %s", d->msg);
    }
    char *at = items;
    for (const cJSON *i = v->child; i != NULL; i = i->next, at += size) {
        if (f->type == HSP_F_LIST) {
            enum hsp_status st = decode_object(d, f->sub, f->n_sub, i, at);
            if (st != HSP_OK) {
                return st;
            }
            continue;
        }
        double x;
        if (!decode_f64(i, &x)) {
            return bad(d, f->name, "not a number");
        }
        memcpy(at, &x, sizeof(x));
    }
    put(base, f->count_offset, &n, sizeof(n));
    put(base, f->offset, &items, sizeof(items));
    return HSP_OK;
}

static enum hsp_status decode_text(const struct dec *d, const struct hsp_wire_field *f,
                                   const char *s, void *base)
{
    if (f->type == HSP_F_STR) {
        if (strlen(s) > f->limit) {
            return bad(d, f->name, "too long");
        }
        char *copy = hsp_arena_strdup(d->arena, s);
        if (copy == NULL) {
            return hsp_err_nomem(d->err, "the message %s", d->msg);
        }
        put(base, f->offset, &copy, sizeof(copy));
    } else if (f->type == HSP_F_U64) {
        uint64_t v;
        if (!hsp_parse_u64(s, &v)) {
            return bad(d, f->name, "not an unsigned integer");
        }
        put(base, f->offset, &v, sizeof(v));
    } else if (f->type == HSP_F_ENUM) {
        uint32_t v = 0;
        while (v < f->limit && strcmp(f->names[v], s) != 0) {
            v++;
        }
        if (v == f->limit) {
            return bad(d, f->name, "unknown value");
        }
        put(base, f->offset, &v, sizeof(v));
    } else if (f->type == HSP_F_DIGEST) {
        struct hsp_digest v;
        if (!hsp_digest_parse(s, &v)) {
            return bad(d, f->name, "not a digest");
        }
        put(base, f->offset, &v, sizeof(v));
    } else if (!hex_read(s, (uint8_t *)base + f->offset, HSP_KEY_BYTES)) {
        return bad(d, f->name, "not a key");
    }
    return HSP_OK;
}

static enum hsp_status decode_field(const struct dec *d, const struct hsp_wire_field *f,
                                    const cJSON *v, void *base)
{
    switch (f->type) {
    case HSP_F_U32: {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        if (!(x >= 0 && x <= (double)UINT32_MAX && x == floor(x))) {
            return bad(d, f->name, "not a 32-bit unsigned integer");
        }
        uint32_t u = (uint32_t)x;
        if (f->limit != 0 && u > f->limit) {
            return bad(d, f->name, "above its limit");
        }
        put(base, f->offset, &u, sizeof(u));
        return HSP_OK;
    }
    case HSP_F_F64: {
        double x;
        if (!decode_f64(v, &x)) {
            return bad(d, f->name, "not a number");
        }
        put(base, f->offset, &x, sizeof(x));
        return HSP_OK;
    }
    case HSP_F_BOOL: {
        bool b = cJSON_IsTrue(v);
        if (!cJSON_IsBool(v)) {
            return bad(d, f->name, "not a boolean");
        }
        put(base, f->offset, &b, sizeof(b));
        return HSP_OK;
    }
    case HSP_F_U64:
    case HSP_F_STR:
    case HSP_F_ENUM:
    case HSP_F_DIGEST:
    case HSP_F_KEY:
        return cJSON_IsString(v) ? decode_text(d, f, v->valuestring, base)
                                 : bad(d, f->name, "not a string");
    case HSP_F_LIST:
    case HSP_F_F64S: return decode_array(d, f, v, base);
    }
    return HSP_EINVAL;
}

/* A field that no table here has: a newer sender may know more of an object, of fields as many as
 * any table may have. */
static enum hsp_status pass_over(const struct dec *d, const cJSON *o, const cJSON *v, uint32_t more)
{
    if (d->version <= hsp_protocol.newest || more > HSP_WIRE_FIELDS) {
        return bad(d, v->string, "unknown field");
    }
    for (const cJSON *u = o->child; u != v; u = u->next) {
        if (strcmp(u->string, v->string) == 0) {
            return bad(d, v->string, "given twice");
        }
    }
    return HSP_OK;
}

/* A field that the object does not have: an older sender does not know it, and it stays 0. */
static enum hsp_status leave_out(const struct dec *d, const struct hsp_wire_field *f, void *base)
{
    static const char *const empty = "";
    if (d->version >= f->since) {
        return bad(d, f->name, "missing");
    }
    if (f->type == HSP_F_STR) {
        put(base, f->offset, &empty, sizeof(empty));
    }
    return HSP_OK;
}

static enum hsp_status decode_object(const struct dec *d, const struct hsp_wire_field *f,
                                     uint32_t n, const cJSON *o, void *base)
{
    uint64_t seen = 0;
    uint32_t more = 0; /* fields that are not known */
    HSP_ASSERT(n <= HSP_WIRE_FIELDS);
    if (!cJSON_IsObject(o)) {
        return bad(d, "", "not an object");
    }
    for (const cJSON *v = o->child; v != NULL; v = v->next) {
        uint32_t i = 0;
        while (i < n && strcmp(f[i].name, v->string) != 0) {
            i++;
        }
        if (i < n && (seen >> i & 1) != 0) {
            return bad(d, v->string, "given twice");
        }
        seen |= i < n ? (uint64_t)1 << i : 0;
        enum hsp_status st = i < n ? decode_field(d, &f[i], v, base) : pass_over(d, o, v, ++more);
        if (st != HSP_OK) {
            return st;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        enum hsp_status st = (seen >> i & 1) != 0 ? HSP_OK : leave_out(d, &f[i], base);
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_msg_decode(const struct hsp_msg *head, const void *body, size_t len,
                               struct hsp_arena *arena, struct hsp_msg *ret, struct hsp_err *err)
{
    const struct hsp_msg_desc *desc = hsp_msg_desc_of(head->type);
    uint8_t version = head->version != 0 ? head->version : hsp_protocol.newest;
    if (desc == NULL) {
        bool newer = version > hsp_protocol.newest;
        return hsp_err_set(err, newer ? HSP_EVERSION : HSP_EPROTO, 0, "unknown message type %u",
                           head->type);
    }
    if (head->blob_len > hsp_msg_blob_max(head->type) || len > HSP_MSG_BODY_MAX) {
        return hsp_err_set(err, HSP_EPROTO, 0, "%s: body of %zu and blob of %u bytes above limit",
                           desc->name, len, head->blob_len);
    }
    if (!hsp_utf8_valid(body, len)) {
        return hsp_err_set(err, HSP_EPROTO, 0, "%s: not UTF-8", desc->name);
    }
    const char *end = NULL;
    errno = 0; /* cJSON does not say why it gave up; malloc does */
    cJSON *o = cJSON_ParseWithLengthOpts(body, len, &end, 0);
    if (o == NULL && errno == ENOMEM) {
        return hsp_err_nomem(err, "the message %s", desc->name);
    }
    if (o == NULL) {
        return hsp_err_set(err, HSP_EPROTO, 0, "%s: malformed JSON", desc->name);
    }
    struct hsp_msg m = *head;
    memset(&m.u, 0, sizeof(m.u));
    struct dec d = {desc->name, version, arena, err};
    enum hsp_status st;
    if (end != (const char *)body + len) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "%s: %zu bytes behind the body", desc->name,
                         (size_t)((const char *)body + len - end));
    } else {
        st = decode_object(&d, desc->fields, desc->n_fields, o, &m.u);
    }
    cJSON_Delete(o);
    if (st == HSP_OK) {
        *ret = m;
    }
    return st;
}

/* ---- clone ---- */

static bool clone_fields(const struct hsp_wire_field *f, uint32_t n, void *base,
                         struct hsp_arena *a)
{
    for (uint32_t i = 0; i < n; i++) {
        if (f[i].type == HSP_F_STR) {
            const char *s = hsp_field_ptr(base, f[i].offset);
            char *copy = hsp_arena_strdup(a, s != NULL ? s : "");
            if (copy == NULL) {
                return false;
            }
            put(base, f[i].offset, &copy, sizeof(copy));
        } else if (f[i].type == HSP_F_LIST || f[i].type == HSP_F_F64S) {
            size_t size = f[i].type == HSP_F_F64S ? sizeof(double) : f[i].sub_size;
            uint32_t count = hsp_field_u32(base, f[i].count_offset);
            const void *from = hsp_field_ptr(base, f[i].offset);
            char *items = hsp_arena_array(a, count, size);
            if (items == NULL) {
                return false;
            }
            if (count != 0) {
                memcpy(items, from, count * size);
            }
            for (uint32_t k = 0; f[i].type == HSP_F_LIST && k < count; k++) {
                if (!clone_fields(f[i].sub, f[i].n_sub, items + k * size, a)) {
                    return false;
                }
            }
            put(base, f[i].offset, &items, sizeof(items));
        }
    }
    return true;
}

enum hsp_status hsp_msg_clone(const struct hsp_msg *m, struct hsp_arena *arena, struct hsp_msg *ret,
                              struct hsp_err *err)
{
    const struct hsp_msg_desc *d = hsp_msg_desc_of(m->type);
    HSP_ASSERT(d != NULL);
    struct hsp_msg c = *m;
    bool ok = clone_fields(d->fields, d->n_fields, &c.u, arena);
    if (ok && m->blob_len != 0) {
        c.blob = hsp_arena_memdup(arena, m->blob, m->blob_len);
        ok = c.blob != NULL;
    }
    if (!ok) {
        return hsp_err_nomem(err, "the message %s", d->name);
    }
    *ret = c;
    return HSP_OK;
}
