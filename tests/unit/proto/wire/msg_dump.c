#include "tests/unit/proto/wire/msg_dump.h"

#include <string.h>

#include "proto/wire/msg_table.h"

static void dump_text(struct hsp_buf *out, const char *s)
{
    hsp_buf_u8(out, '"');
    for (size_t i = 0; s != NULL && s[i] != '\0' && i < 64; i++) {
        hsp_buf_u8(out, (unsigned char)s[i] < 32 || s[i] == '"' ? '?' : (uint8_t)s[i]);
    }
    hsp_buf_u8(out, '"');
}

static void dump_fields(const struct hsp_wire_field *f, uint32_t n, const void *base,
                        struct hsp_buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (f[i].type == HSP_F_KEY) {
            continue;
        }
        hsp_buf_printf(out, " %s ", f[i].name);
        switch (f[i].type) {
        case HSP_F_U32: hsp_buf_printf(out, "%u", hsp_field_u32(base, f[i].offset)); break;
        case HSP_F_U64:
            hsp_buf_printf(out, "%llu", (unsigned long long)hsp_field_u64(base, f[i].offset));
            break;
        case HSP_F_F64: hsp_buf_printf(out, "%.6g", hsp_field_f64(base, f[i].offset)); break;
        case HSP_F_BOOL: hsp_buf_puts(out, hsp_field_bool(base, f[i].offset) ? "yes" : "no"); break;
        case HSP_F_STR: dump_text(out, hsp_field_ptr(base, f[i].offset)); break;
        case HSP_F_ENUM: {
            uint32_t v = hsp_field_u32(base, f[i].offset);
            hsp_buf_puts(out, v < f[i].limit ? f[i].names[v] : "?");
            break;
        }
        case HSP_F_DIGEST: {
            struct hsp_digest d;
            char hex[HSP_DIGEST_HEX];
            memcpy(&d, (const char *)base + f[i].offset, sizeof(d));
            hsp_digest_hex(d, hex);
            hsp_buf_puts(out, hex);
            break;
        }
        case HSP_F_KEY:
        case HSP_F_LIST:
        case HSP_F_F64S: hsp_buf_printf(out, "[%u]", hsp_field_u32(base, f[i].count_offset)); break;
        }
    }
}

void hsp_msg_dump(const struct hsp_msg *m, struct hsp_buf *out)
{
    const struct hsp_msg_desc *d = hsp_msg_desc_of(m->type);
    if (d == NULL) {
        hsp_buf_printf(out, "unknown type %u", m->type);
        return;
    }
    hsp_buf_puts(out, d->name);
    if (m->epoch != 0) {
        hsp_buf_printf(out, " epoch %llu", (unsigned long long)m->epoch);
    }
    dump_fields(d->fields, d->n_fields, &m->u, out);
    if (m->blob_len != 0) {
        hsp_buf_printf(out, " blob %u", m->blob_len);
    }
}
