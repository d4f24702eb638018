/* Reads a parsed YAML tree: children by key, typed scalars, and errors with file, line and column.
 *
 * Purity: pure. */
#ifndef HSP_YAML_READ_H
#define HSP_YAML_READ_H
#include <stdio.h>

#include "proto/text/yaml.h"

/* The child of a map by key; NULL when absent, or when @node is NULL or not a map. */
const struct hsp_yaml *hsp_yaml_get(const struct hsp_yaml *node, const char *key);
/* The same along a dotted path ("train.optimizer.lr"). Keys that contain dots are not reached. */
const struct hsp_yaml *hsp_yaml_find(const struct hsp_yaml *node, const char *path);
/* The child by @key, or by @old, the name of the key in older releases; *ret is NULL when both are
 * absent. HSP_EPARSE when the map has both. */
enum hsp_status hsp_yaml_renamed(const struct hsp_yaml *node, const char *key, const char *old,
                                 const struct hsp_yaml **ret, struct hsp_err *err);
/* Sets "file:line:column: key: message" with HSP_EPARSE (the position of the value). */
enum hsp_status hsp_yaml_error(const struct hsp_yaml *node, struct hsp_err *err, const char *fmt,
                               ...) __attribute__((format(printf, 3, 4)));
/* HSP_EPARSE unless the node is of @kind. */
enum hsp_status hsp_yaml_expect(const struct hsp_yaml *node, enum hsp_yaml_kind kind,
                                struct hsp_err *err);
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
/* Every key of the map @node is one of @known; else HSP_EPARSE at the key, with the nearest. */
enum hsp_status hsp_yaml_check_keys(const struct hsp_yaml *node, const char *const *known, size_t n,
                                    struct hsp_err *err);
/* Equal kinds, texts, keys and order; positions do not matter. */
bool hsp_yaml_equal(const struct hsp_yaml *a, const struct hsp_yaml *b);

#endif
