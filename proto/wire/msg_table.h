/* Shares the field tables behind msg.h with its encoder, decoder and dumper; private to proto/wire.
 * Purity: pure data. */
#ifndef HSP_MSG_TABLE_H
#define HSP_MSG_TABLE_H
#include <string.h>

#include "proto/wire/msg.h"

enum hsp_wire_field_type {
    HSP_F_U32,
    HSP_F_U64, /* decimal string */
    HSP_F_F64,
    HSP_F_BOOL,
    HSP_F_STR,    /* limit: most bytes */
    HSP_F_ENUM,   /* names[value] */
    HSP_F_DIGEST, /* 32 hex digits */
    HSP_F_KEY,    /* 64 hex digits */
    HSP_F_LIST,   /* array of objects described by sub; limit: most items */
    HSP_F_F64S    /* array of numbers; limit: most items */
};

#define HSP_WIRE_FIELDS 64 /* of one object; bits of decode_object */

struct hsp_wire_field {
    const char *name;
    enum hsp_wire_field_type type;
    uint32_t offset;       /* in the struct */
    uint32_t count_offset; /* of the uint32_t count: LIST, F64S */
    uint32_t limit;        /* STR, LIST, F64S, ENUM (number of names) ; U32: largest value, 0 any */
    const struct hsp_wire_field *sub;
    uint32_t n_sub, sub_size;
    const char *const *names;
    uint8_t since; /* the version that added it: older senders leave it out; 0: none does */
};
struct hsp_msg_desc {
    uint16_t type;
    const char *name;
    const struct hsp_wire_field *fields;
    uint32_t n_fields, size;
};

/* NULL for an unknown type. */
const struct hsp_msg_desc *hsp_msg_desc_of(uint16_t type);

/* Most bytes of a blob: PREPARE, FINISHED, ECHO, TRACED, PAPERS, SUBMIT, PLAN and REPLY carry one;
 * 0 elsewhere. */
uint32_t hsp_msg_blob_max(uint16_t type);

/* Fields are read and written by memcpy: the tables give bytes, and no alignment is assumed. */
static inline uint32_t hsp_field_u32(const void *base, uint32_t off)
{
    uint32_t v;
    memcpy(&v, (const char *)base + off, sizeof(v));
    return v;
}

static inline uint64_t hsp_field_u64(const void *base, uint32_t off)
{
    uint64_t v;
    memcpy(&v, (const char *)base + off, sizeof(v));
    return v;
}

static inline double hsp_field_f64(const void *base, uint32_t off)
{
    double v;
    memcpy(&v, (const char *)base + off, sizeof(v));
    return v;
}

static inline bool hsp_field_bool(const void *base, uint32_t off)
{
    bool v;
    memcpy(&v, (const char *)base + off, sizeof(v));
    return v;
}

static inline void *hsp_field_ptr(const void *base, uint32_t off)
{
    void *v;
    memcpy(&v, (const char *)base + off, sizeof(v));
    return v;
}

#endif
