/* The field tables behind msg.h, shared by its encoder, decoder and dumper. Private to proto/wire.
 * Purity: pure data. */
#ifndef HSP_MSGTABLE_H
#define HSP_MSGTABLE_H
#include "proto/wire/msg.h"

enum hsp_field_type {
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

struct hsp_field {
    const char *name;
    enum hsp_field_type type;
    uint32_t offset;       /* in the struct */
    uint32_t count_offset; /* of the uint32_t count: LIST, F64S */
    uint32_t limit;        /* STR, LIST, F64S, ENUM (number of names) ; U32: largest value, 0 any */
    const struct hsp_field *sub;
    uint32_t n_sub, sub_size;
    const char *const *names;
};
struct hsp_msg_desc {
    uint16_t type;
    const char *name;
    const struct hsp_field *fields;
    uint32_t n_fields, size;
};

/* NULL for an unknown type. */
const struct hsp_msg_desc *hsp_msg_desc(uint16_t type);

/* Most bytes of a blob: PREPARE, FINISHED, ECHO, SUBMIT, PLAN and REPLY carry one; 0 elsewhere. */
uint32_t hsp_msg_blob_max(uint16_t type);

#endif
