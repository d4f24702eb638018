/* Parses YAML (or JSON) text into a tree whose nodes know their places in the file.
 *
 * Role:      config, job, plan and cluster files; read from a buffer, never from a file.
 * Purity:    pure.
 * Ownership: nodes and texts live in the arena given to hsp_yaml_parse; immutable.
 * Bounds:    HSP_YAML_MAX_*: a job or plan file is a few thousand nodes, so these only stop abuse.
 * Subset:    one document; no anchors, aliases or tags; keys are scalars and unique in their map.
 */
#ifndef HSP_YAML_H
#define HSP_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_arena;
struct hsp_buf;

enum {
    HSP_YAML_MAX_BYTES = 16 << 20,
    HSP_YAML_MAX_DEPTH = 32,
    HSP_YAML_MAX_NODES = 1 << 20,
    HSP_YAML_MAX_KEY = 128, /* bytes; with every one escaped still a simple key of YAML (1024) */
};

enum hsp_yaml_kind {
    HSP_YAML_NULL, /* nothing, ~ or null */
    HSP_YAML_SCALAR,
    HSP_YAML_SEQ,
    HSP_YAML_MAP,
};

struct hsp_yaml {
    enum hsp_yaml_kind kind;
    bool quoted;         /* a scalar in quotes or a block: always text, never a number or null */
    uint32_t line;       /* of the value, from 1 */
    uint32_t column;     /* of the value, from 1 */
    const char *file;    /* name given to the parser, for messages */
    const char *key;     /* in a map: its key; else NULL */
    uint32_t key_line;   /* of the key, from 1; 0 without a key */
    uint32_t key_column; /* of the key, from 1; 0 without a key */
    const char *text;    /* of a scalar; NULL otherwise */
    size_t n;            /* children of a sequence or map */
    const struct hsp_yaml *items; /* the children, in file order */
};

#endif
