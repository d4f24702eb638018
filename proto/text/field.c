#include "proto/text/field.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

struct bounds {
    double lo, hi;
};

static struct bounds bounds_of(const struct hsp_cfg_field *f, double lo, double hi)
{
    bool given = f->min < 0 || f->min > 0 || f->max < 0 || f->max > 0;
    return given ? (struct bounds){f->min, f->max} : (struct bounds){lo, hi};
}

/* Range of sizes and durations, which print best in their own notation. */
static enum hsp_status check_range(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                                   uint64_t v, struct hsp_err *err)
{
    struct bounds r = bounds_of(f, 0, (double)UINT64_MAX);
    if ((double)v >= r.lo && (double)v <= r.hi) {
        return HSP_OK;
    }
    struct hsp_buf b;
    hsp_buf_init(&b, 100);
    void (*put)(struct hsp_buf *, uint64_t) =
        f->type == HSP_FIELD_MS ? hsp_yaml_put_ms : hsp_yaml_put_bytes;
    put(&b, (uint64_t)r.lo);
    hsp_buf_puts(&b, " to ");
    put(&b, (uint64_t)r.hi);
    enum hsp_status rc =
        hsp_yaml_error(node, err, "%s is outside %s", node->text, hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
    return rc;
}

/* Integer bounds from the table, which holds doubles; those at the ends of the type are exact. */
static int64_t to_i64(double v)
{
    return v >= 0x1p63 ? INT64_MAX : (v <= -0x1p63 ? INT64_MIN : (int64_t)v);
}

static uint64_t to_u64(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : (v <= 0 ? 0 : (uint64_t)v);
}

static enum hsp_status load_array(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                                  void *at, struct hsp_err *err)
{
    bool real = f->type == HSP_FIELD_F64;
    if (node->kind != HSP_YAML_SEQ || node->n != f->count) {
        return hsp_yaml_error(node, err, "wanted a list of %u %s", f->count,
                              real ? "numbers" : "integers");
    }
    struct bounds fr = bounds_of(f, -DBL_MAX, DBL_MAX);
    struct bounds ir = bounds_of(f, -0x1p63, 0x1p63);
    for (size_t i = 0; i < node->n; i++) {
        struct hsp_yaml item = node->items[i];
        item.key = node->key; /* so that the message names the field */
        enum hsp_status rc =
            real ? hsp_yaml_f64(&item, fr.lo, fr.hi, (double *)at + i, err)
                 : hsp_yaml_i64(&item, to_i64(ir.lo), to_i64(ir.hi), (int64_t *)at + i, err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

static enum hsp_status load_strs(const struct hsp_yaml *node, struct hsp_arena *arena,
                                 struct hsp_strs *at, struct hsp_err *err)
{
    bool seq = node->kind == HSP_YAML_SEQ;
    size_t n = seq ? node->n : 1;
    const char **items = hsp_arena_array(arena, n, sizeof(*items));
    if (items == NULL) {
        return hsp_err_nomem(err, "%s", node->file);
    }
    for (size_t i = 0; i < n; i++) {
        struct hsp_yaml item = seq ? node->items[i] : *node;
        item.key = node->key;
        enum hsp_status rc = hsp_yaml_str(&item, &items[i], err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    *at = (struct hsp_strs){.items = items, .n = n};
    return HSP_OK;
}

static enum hsp_status load_choice(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                                   int *at, struct hsp_err *err)
{
    size_t n = 0;
    while (f->choices[n] != NULL) {
        n++;
    }
    size_t i;
    enum hsp_status rc = hsp_yaml_choice(node, f->choices, n, &i, err);
    if (rc == HSP_OK) {
        *at = (int)i;
    } else if (err != NULL && f->not_that != NULL) {
        const struct hsp_err why = *err;
        return hsp_err_set(err, rc, 0, "%s: %s", why.msg, f->not_that);
    }
    return rc;
}

static enum hsp_status load_number(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                                   void *at, struct hsp_err *err)
{
    struct bounds r;
    if (f->type == HSP_FIELD_F64) {
        r = bounds_of(f, -DBL_MAX, DBL_MAX);
        return hsp_yaml_f64(node, r.lo, r.hi, at, err);
    }
    if (f->type == HSP_FIELD_I64) {
        r = bounds_of(f, -0x1p63, 0x1p63);
        return hsp_yaml_i64(node, to_i64(r.lo), to_i64(r.hi), at, err);
    }
    bool narrow = f->type == HSP_FIELD_U32;
    r = bounds_of(f, 0, narrow ? (double)UINT32_MAX : 0x1p64);
    uint64_t v;
    enum hsp_status rc = hsp_yaml_u64(node, to_u64(r.lo), to_u64(r.hi), &v, err);
    if (rc == HSP_OK && narrow) {
        *(uint32_t *)at = (uint32_t)v;
    } else if (rc == HSP_OK) {
        *(uint64_t *)at = v;
    }
    return rc;
}

static enum hsp_status load_field(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                                  struct hsp_arena *arena, void *at, struct hsp_err *err)
{
    enum hsp_status rc = HSP_EINVAL;
    switch (f->type) {
    case HSP_FIELD_STR: return hsp_yaml_str(node, at, err);
    case HSP_FIELD_I64:
    case HSP_FIELD_F64:
        return f->count > 1 ? load_array(f, node, at, err) : load_number(f, node, at, err);
    case HSP_FIELD_U32:
    case HSP_FIELD_U64: return load_number(f, node, at, err);
    case HSP_FIELD_BOOL: return hsp_yaml_bool(node, at, err);
    case HSP_FIELD_BYTES: rc = hsp_yaml_bytes(node, at, err); break;
    case HSP_FIELD_MS: rc = hsp_yaml_ms(node, at, err); break;
    case HSP_FIELD_CHOICE: return load_choice(f, node, at, err);
    case HSP_FIELD_STRS: return load_strs(node, arena, at, err);
    case HSP_FIELD_NODE: *(const struct hsp_yaml **)at = node; return HSP_OK;
    }
    return rc == HSP_OK ? check_range(f, node, *(uint64_t *)at, err) : rc;
}

/* The first part of a path behind @prefix ("train." -> "optimizer"); "" when not below it. */
struct part {
    char text[64];
    bool leaf;
};

static struct part part_below(const char *path, const char *prefix)
{
    struct part p = {"", false};
    size_t skip = strlen(prefix);
    if (strncmp(path, prefix, skip) == 0) {
        size_t n = strcspn(path + skip, ".");
        HSP_ASSERT(n < sizeof(p.text)); /* a table of ours */
        memcpy(p.text, path + skip, n);
        p.text[n] = '\0';
        p.leaf = path[skip + n] == '\0';
    }
    return p;
}

/* Checks the keys of the map at @prefix and, below it, of every inner map. */
static enum hsp_status check_level(const struct hsp_cfg_field *fields, size_t n,
                                   const struct hsp_yaml *node, const char *prefix,
                                   struct hsp_err *err)
{
    if (node->kind == HSP_YAML_NULL) {
        return HSP_OK; /* "train:" with everything commented out */
    }
    enum hsp_status rc = hsp_yaml_expect(node, HSP_YAML_MAP, err);
    if (rc != HSP_OK) {
        return rc;
    }
    struct part parts[HSP_FIELD_MAX];
    const char *known[2 * HSP_FIELD_MAX];
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++) {
        struct part p = part_below(fields[i].path, prefix);
        bool repeat = n_known > 0 && strcmp(known[n_known - 1], p.text) == 0;
        if (p.text[0] != '\0' && !repeat) {
            parts[n_known] = p;
            known[n_known] = parts[n_known].text;
            n_known++;
        }
    }
    size_t n_named = n_known;
    for (size_t i = 0; i < n && prefix[0] == '\0'; i++) {
        if (fields[i].old != NULL) {
            known[n_named++] = fields[i].old;
        }
    }
    rc = hsp_yaml_check_keys(node, known, n_named, err);
    for (size_t i = 0; rc == HSP_OK && i < n_known; i++) {
        const struct hsp_yaml *child = hsp_yaml_get(node, known[i]);
        if (child != NULL && !parts[i].leaf) {
            char below[HSP_FIELD_MAX_DEPTH * 64];
            int k = snprintf(below, sizeof(below), "%s%s.", prefix, known[i]);
            HSP_ASSERT(k > 0 && (size_t)k < sizeof(below)); /* a table of ours */
            rc = check_level(fields, n, child, below, err);
        }
    }
    return rc;
}

static enum hsp_status load_default(const struct hsp_cfg_field *f, struct hsp_arena *arena,
                                    void *at, struct hsp_err *err)
{
    if (f->dflt == NULL) {
        return HSP_OK; /* zero already */
    }
    const struct hsp_yaml *node;
    enum hsp_status rc = hsp_yaml_parse("default", f->dflt, strlen(f->dflt), arena, &node, err);
    if (rc == HSP_OK && node->kind != HSP_YAML_NULL) {
        rc = load_field(f, node, arena, at, err);
        HSP_ASSERT(rc == HSP_OK || rc == HSP_ENOMEM); /* a default satisfies its own table */
    }
    return rc;
}

static size_t member_size(const struct hsp_cfg_field *f)
{
    size_t count = f->count > 1 ? f->count : 1;
    switch (f->type) {
    case HSP_FIELD_STR: return sizeof(const char *);
    case HSP_FIELD_I64: return count * sizeof(int64_t);
    case HSP_FIELD_U32: return sizeof(uint32_t);
    case HSP_FIELD_U64: return sizeof(uint64_t);
    case HSP_FIELD_F64: return count * sizeof(double);
    case HSP_FIELD_BOOL: return sizeof(bool);
    case HSP_FIELD_BYTES: return sizeof(uint64_t);
    case HSP_FIELD_MS: return sizeof(uint64_t);
    case HSP_FIELD_CHOICE: return sizeof(int);
    case HSP_FIELD_STRS: return sizeof(struct hsp_strs);
    case HSP_FIELD_NODE: return sizeof(const struct hsp_yaml *);
    }
    return 0;
}

/* The place of the innermost map of @path that the file has: of its key, or of the whole file. */
static enum hsp_status missing(const struct hsp_yaml *node, const char *path, struct hsp_err *err)
{
    const char *part = path;
    for (const struct hsp_yaml *child = node; child != NULL;) {
        char key[64];
        size_t n = strcspn(part, ".");
        HSP_ASSERT(n < sizeof(key)); /* a table of ours */
        memcpy(key, part, n);
        key[n] = '\0';
        node = child;
        child = part[0] != '\0' ? hsp_yaml_get(node, key) : NULL;
        part += n + (part[n] == '.');
    }
    bool inner = node->key_line != 0;
    return hsp_err_set(err, HSP_EPARSE, 0, "%s:%u:%u: key \"%s\" is missing", node->file,
                       inner ? node->key_line : node->line, inner ? node->key_column : node->column,
                       path);
}

enum hsp_status hsp_field_find(const struct hsp_cfg_field *f, const struct hsp_yaml *node,
                               const struct hsp_yaml **ret, struct hsp_err *err)
{
    if (f->old != NULL) {
        return hsp_yaml_renamed(node, f->path, f->old, ret, err);
    }
    *ret = hsp_yaml_find(node, f->path);
    return HSP_OK;
}

enum hsp_status hsp_fields_load(const struct hsp_cfg_field *fields, size_t n,
                                const struct hsp_yaml *node, struct hsp_arena *arena, void *dst,
                                bool *ret_set, struct hsp_err *err)
{
    HSP_ASSERT(n <= HSP_FIELD_MAX);
    enum hsp_status rc = check_level(fields, n, node, "", err);
    for (size_t i = 0; rc == HSP_OK && i < n; i++) {
        const struct hsp_cfg_field *f = &fields[i];
        void *at = (char *)dst + f->offset;
        const struct hsp_yaml *value = NULL;
        rc = hsp_field_find(f, node, &value, err);
        if (rc != HSP_OK) {
            break;
        }
        bool absent = value == NULL || (value->kind == HSP_YAML_NULL && f->type == HSP_FIELD_NODE);
        memset(at, 0, member_size(f));
        if (ret_set != NULL) {
            ret_set[i] = !absent;
        }
        if (!absent) {
            rc = load_field(f, value, arena, at, err);
        } else if (f->required) {
            rc = missing(node, f->path, err);
        } else {
            rc = load_default(f, arena, at, err);
        }
    }
    return rc;
}

/* --- printing -------------------------------------------------------------------------------- */

static void print_array(const struct hsp_cfg_field *f, const void *at, struct hsp_buf *b)
{
    hsp_buf_u8(b, '[');
    for (unsigned i = 0; i < f->count; i++) {
        hsp_buf_puts(b, i > 0 ? ", " : "");
        if (f->type == HSP_FIELD_F64) {
            hsp_yaml_put_f64(b, ((const double *)at)[i]);
        } else {
            hsp_buf_printf(b, "%lld", (long long)((const int64_t *)at)[i]);
        }
    }
    hsp_buf_u8(b, ']');
}

static void print_strs(const struct hsp_strs *l, struct hsp_buf *b)
{
    hsp_buf_u8(b, '[');
    for (size_t i = 0; i < l->n; i++) {
        hsp_buf_puts(b, i > 0 ? ", " : "");
        hsp_yaml_put_str(b, l->items[i]);
    }
    hsp_buf_u8(b, ']');
}

static void print_value(const struct hsp_cfg_field *f, const void *at, struct hsp_buf *b)
{
    if (f->count > 1) {
        print_array(f, at, b);
        return;
    }
    switch (f->type) {
    case HSP_FIELD_STR: hsp_yaml_put_str(b, *(const char *const *)at); break;
    case HSP_FIELD_I64: hsp_buf_printf(b, "%lld", (long long)*(const int64_t *)at); break;
    case HSP_FIELD_U32: hsp_buf_printf(b, "%u", *(const uint32_t *)at); break;
    case HSP_FIELD_U64: hsp_buf_printf(b, "%llu", (unsigned long long)*(const uint64_t *)at); break;
    case HSP_FIELD_F64: hsp_yaml_put_f64(b, *(const double *)at); break;
    case HSP_FIELD_BOOL: hsp_buf_puts(b, *(const bool *)at ? "true" : "false"); break;
    case HSP_FIELD_BYTES: hsp_yaml_put_bytes(b, *(const uint64_t *)at); break;
    case HSP_FIELD_MS: hsp_yaml_put_ms(b, *(const uint64_t *)at); break;
    case HSP_FIELD_CHOICE: hsp_yaml_put_str(b, f->choices[*(const int *)at]); break;
    case HSP_FIELD_STRS: print_strs(at, b); break;
    case HSP_FIELD_NODE: hsp_yaml_put_flow(b, *(const struct hsp_yaml *const *)at); break;
    }
}

static bool is_absent(const struct hsp_cfg_field *f, const void *at)
{
    bool pointer = f->type == HSP_FIELD_STR || f->type == HSP_FIELD_NODE;
    return pointer && *(const void *const *)at == NULL;
}

static void indent(struct hsp_buf *b, size_t depth)
{
    hsp_buf_printf(b, "%*s", (int)(2 * depth), "");
}

/* Opens the maps of @path that the field printed before it did not open; returns its depth. */
static size_t open_maps(const char *path, const char *before, struct hsp_buf *b)
{
    size_t depth = 0;
    bool same = true;
    const char *dot;
    for (const char *p = path; (dot = strchr(p, '.')) != NULL; p = dot + 1) {
        size_t upto = (size_t)(dot - path) + 1;
        same = same && strncmp(path, before, upto) == 0;
        if (!same) {
            indent(b, depth);
            hsp_buf_append(b, p, (size_t)(dot - p));
            hsp_buf_puts(b, ":\n");
        }
        depth++;
    }
    return depth;
}

void hsp_fields_print(const struct hsp_cfg_field *fields, size_t n, const void *src,
                      const bool *set, bool help, struct hsp_buf *b)
{
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        const struct hsp_cfg_field *f = &fields[i];
        const void *at = (const char *)src + f->offset;
        if (is_absent(f, at)) {
            continue;
        }
        size_t depth = open_maps(f->path, before, b);
        before = f->path;
        if (help && f->help != NULL) {
            indent(b, depth);
            hsp_buf_printf(b, "# %s\n", f->help);
        }
        const char *dot = strrchr(f->path, '.');
        indent(b, depth);
        hsp_buf_printf(b, "%s: ", dot != NULL ? dot + 1 : f->path);
        print_value(f, at, b);
        hsp_buf_puts(b, set != NULL && !set[i] ? "  # default\n" : "\n");
    }
}

void hsp_field_put(const struct hsp_cfg_field *f, const void *src, struct hsp_buf *b)
{
    print_value(f, (const char *)src + f->offset, b);
}

bool hsp_field_absent(const struct hsp_cfg_field *f, const void *src)
{
    return is_absent(f, (const char *)src + f->offset);
}

static bool same_strs(const struct hsp_strs *a, const struct hsp_strs *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        same = strcmp(a->items[i], b->items[i]) == 0;
    }
    return same;
}

bool hsp_field_same(const struct hsp_cfg_field *f, const void *a, const void *b)
{
    if (hsp_field_absent(f, a) || hsp_field_absent(f, b)) {
        return hsp_field_absent(f, a) && hsp_field_absent(f, b);
    }
    const void *x = (const char *)a + f->offset, *y = (const char *)b + f->offset;
    if (f->type == HSP_FIELD_STR) {
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    }
    if (f->type == HSP_FIELD_STRS) {
        return same_strs(x, y);
    }
    if (f->type == HSP_FIELD_NODE) {
        return hsp_yaml_equal(*(const struct hsp_yaml *const *)x,
                              *(const struct hsp_yaml *const *)y);
    }
    return memcmp(x, y, member_size(f)) == 0;
}

void hsp_field_copy(const struct hsp_cfg_field *f, void *dst, const void *src)
{
    memcpy((char *)dst + f->offset, (const char *)src + f->offset, member_size(f));
}
