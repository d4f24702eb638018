/* A parsed YAML (or JSON) text as a tree whose nodes know where they stand in the file.
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

/* Parses @len bytes. @name stands in messages only. An empty text gives a NULL node.
 * Returns HSP_EPARSE with "name:line:column: what", HSP_ELIMIT likewise, HSP_ENOMEM. */
enum hsp_status hsp_yaml_parse(const char *name, const void *data, size_t len,
                               struct hsp_arena *arena, const struct hsp_yaml **ret,
                               struct hsp_err *err);

/* The child of a map by key; NULL when absent, or when @node is NULL or not a map. */
const struct hsp_yaml *hsp_yaml_get(const struct hsp_yaml *node, const char *key);

/* The same along a dotted path ("train.optimizer.lr"). Keys that contain dots are not reached. */
const struct hsp_yaml *hsp_yaml_find(const struct hsp_yaml *node, const char *path);

/* Sets "file:line:column: key: message" with HSP_EPARSE (the position of the value). */
enum hsp_status hsp_yaml_error(const struct hsp_yaml *node, struct hsp_err *err, const char *fmt,
                               ...) __attribute__((format(printf, 3, 4)));

/* Typed reading of one node. On HSP_EPARSE *ret is untouched. Numbers and booleans must not be
 * quoted, sizes and durations may be (JSON has no other way). */
enum hsp_status hsp_yaml_str(const struct hsp_yaml *node, const char **ret, struct hsp_err *err);
enum hsp_status hsp_yaml_i64(const struct hsp_yaml *node, int64_t min, int64_t max, int64_t *ret,
                             struct hsp_err *err);
enum hsp_status hsp_yaml_u64(const struct hsp_yaml *node, uint64_t min, uint64_t max, uint64_t *ret,
                             struct hsp_err *err);
enum hsp_status hsp_yaml_f64(const struct hsp_yaml *node, double min, double max, double *ret,
                             struct hsp_err *err);
enum hsp_status hsp_yaml_bool(const struct hsp_yaml *node, bool *ret, struct hsp_err *err);
enum hsp_status hsp_yaml_bytes(const struct hsp_yaml *node, uint64_t *ret, struct hsp_err *err);
enum hsp_status hsp_yaml_ms(const struct hsp_yaml *node, uint64_t *ret, struct hsp_err *err);

/* The index in @choices (n of them) of the text. */
enum hsp_status hsp_yaml_choice(const struct hsp_yaml *node, const char *const *choices, size_t n,
                                size_t *ret, struct hsp_err *err);

/* HSP_EPARSE unless the node is of @kind. */
enum hsp_status hsp_yaml_expect(const struct hsp_yaml *node, enum hsp_yaml_kind kind,
                                struct hsp_err *err);

/* Every key of the map @node is one of @known; else HSP_EPARSE at the key, with the nearest. */
enum hsp_status hsp_yaml_check_keys(const struct hsp_yaml *node, const char *const *known, size_t n,
                                    struct hsp_err *err);

/* --- writing; errors are sticky in the buffer ------------------------------------------------ */

/* A scalar that reads back as the same text: plain when that is safe, else in double quotes. */
void hsp_yaml_put_str(struct hsp_buf *b, const char *text);

/* The text as a JSON string. */
void hsp_yaml_put_json_str(struct hsp_buf *b, const char *text);

/* The shortest decimal that reads back as the same number; @v must be finite. */
void hsp_yaml_put_f64(struct hsp_buf *b, double v);

/* A byte count in the largest unit that divides it: 1GiB, 1536MiB, 100. */
void hsp_yaml_put_bytes(struct hsp_buf *b, uint64_t v);

/* Milliseconds in the largest unit that divides them: 3s, 1500ms, 2m. */
void hsp_yaml_put_ms(struct hsp_buf *b, uint64_t v);

/* The tree as flow text on one line; parsing it gives an equal tree. */
void hsp_yaml_put_flow(struct hsp_buf *b, const struct hsp_yaml *node);

/* Equal kinds, texts, keys and order; positions do not matter. */
bool hsp_yaml_equal(const struct hsp_yaml *a, const struct hsp_yaml *b);

#endif
