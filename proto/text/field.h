/* Fills a struct from a YAML tree by a table, and prints it back.
 *
 * Role:      every file that users write (configs, jobs) is one such table: it gives the checks,
 *            the defaults, the messages, --print-config and the commented example.
 * Purity:    pure.
 * Ownership: texts and lists point into the tree or into the arena given.
 *
 * A table names leaves by dotted paths ("train.optimizer.lr"); fields with the same prefix stand
 * together. A key that the file has and the table lacks is an error at its place.
 */
#ifndef HSP_FIELD_H
#define HSP_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/text/yaml.h"

enum hsp_cfg_field_type {                  /* member of the struct it fills */
                          HSP_FIELD_STR,   /* const char * */
                          HSP_FIELD_I64,   /* int64_t, or int64_t[count] */
                          HSP_FIELD_U32,   /* uint32_t */
                          HSP_FIELD_U64,   /* uint64_t */
                          HSP_FIELD_F64,   /* double, or double[count] */
                          HSP_FIELD_BOOL,  /* bool */
                          HSP_FIELD_BYTES, /* uint64_t, "1GiB" */
                          HSP_FIELD_MS,    /* uint64_t, "3s", milliseconds */
                          /* int: index in choices, so enums follow the order of the names */
                          HSP_FIELD_CHOICE,
                          HSP_FIELD_STRS, /* struct hsp_strs; a single text is a list of one */
                          /* const struct hsp_yaml *: the subtree as it is; NULL when absent */
                          HSP_FIELD_NODE,
};

struct hsp_strs {
    const char *const *items;
    size_t n;
};

struct hsp_cfg_field {
    const char *path; /* dotted; at most HSP_FIELD_MAX_DEPTH parts */
    const char *old;  /* NULL, or the name of a path of one part in older releases: read, too */
    enum hsp_cfg_field_type type;
    size_t offset;              /* offsetof in the struct */
    const char *dflt;           /* as it would stand in a file; NULL: zero, "" stays NULL */
    double min, max;            /* numbers, sizes, durations; both 0: unbounded */
    const char *const *choices; /* CHOICE: NULL-terminated */
    const char *not_that;       /* CHOICE: said behind the refusal of another value */
    const char *help;           /* one line; unit and meaning */
    unsigned count;             /* I64, F64: array of this length; 0 or 1: a single value */
    bool required;
    bool live;           /* a reload applies it; else it is of the start only */
    const char *example; /* for the example file, where the default says nothing */
};

enum { HSP_FIELD_MAX_DEPTH = 8, HSP_FIELD_MAX = 128 /* fields in a table */ };

/* Loads the tree @node (a map, or nothing at all) into the struct @dst.
 *
 * @ret_set  NULL, or bool[n]: whether the file gave the field (else it is a default).
 * On failure *dst is unspecified. HSP_EPARSE with "file:line:column: ...", HSP_ENOMEM. */
enum hsp_status hsp_fields_load(const struct hsp_cfg_field *fields, size_t n,
                                const struct hsp_yaml *node, struct hsp_arena *arena, void *dst,
                                bool *ret_set, struct hsp_err *err);

/* Writes the struct as YAML. @set: NULL, or as above: defaults are then marked "# default".
 * @help: write each help line as a comment. Absent texts and nodes are left out. */
void hsp_fields_print(const struct hsp_cfg_field *fields, size_t n, const void *src,
                      const bool *set, bool help, struct hsp_buf *b);

/* The node of the field below @node by either name, NULL when absent. HSP_EPARSE by both. */
enum hsp_status hsp_field_find(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                               const struct hsp_yaml **ret, struct hsp_err *err);
/* The value of one field as it would stand in a file; and whether it is an absent text or node. */
void hsp_field_put(const struct hsp_cfg_field *f, const void *src, struct hsp_buf *b);
bool hsp_field_absent(const struct hsp_cfg_field *f, const void *src);
/* Takes the value over; the memory behind its pointers is not copied. */
void hsp_field_copy(const struct hsp_cfg_field *f, void *dst, const void *src);
/* Whether two structs of one table have the same value there. */
bool hsp_field_same(const struct hsp_cfg_field *f, const void *a, const void *b);

#endif
