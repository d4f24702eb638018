#include "daemon/plan/name_range.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "proto/base/map.h"

/* Reads a decimal number below HSP_RANGE_END, as printf writes it; returns the byte behind it, NULL
 * if there is none. */
static const char *read_number(const char *s, uint32_t *ret)
{
    const char *p = s;
    uint32_t v = 0;
    while (*p >= '0' && *p <= '9' && v < HSP_RANGE_END) {
        v = v * 10 + (uint32_t)(*p++ - '0');
    }
    *ret = v;
    return p == s || (p - s > 1 && *s == '0') || v >= HSP_RANGE_END ? NULL : p;
}

bool hsp_range_parse(const char *text, struct hsp_name_range *ret)
{
    const char *open = strchr(text, '['), *p = open;
    uint32_t hi = 0;
    *ret = (struct hsp_name_range){.text = text, .prefix = strlen(text), .suffix = "", .n = 1};
    if (open == NULL) {
        return true;
    }
    p = read_number(open + 1, &ret->lo);
    p = p != NULL && *p == '-' ? read_number(p + 1, &hi) : NULL;
    if (p == NULL || *p != ']' || hi < ret->lo || strchr(p, '[') != NULL) {
        return false;
    }
    ret->prefix = (size_t)(open - text);
    ret->suffix = p + 1;
    ret->n = hi - ret->lo + 1;
    return true;
}

static bool has_number(const struct hsp_name_range *r)
{
    return r->text[r->prefix] == '[';
}

void hsp_range_put(const struct hsp_name_range *r, uint32_t i, struct hsp_buf *out)
{
    hsp_buf_append(out, r->text, r->prefix);
    if (has_number(r)) {
        hsp_buf_printf(out, "%u%s", r->lo + i, r->suffix);
    }
}

bool hsp_range_has(const struct hsp_name_range *r, const char *name)
{
    uint32_t v = 0;
    if (strncmp(r->text, name, r->prefix) != 0) {
        return false;
    }
    if (!has_number(r)) {
        return name[r->prefix] == '\0';
    }
    const char *p = read_number(name + r->prefix, &v);
    return p != NULL && v >= r->lo && v - r->lo < r->n && strcmp(p, r->suffix) == 0;
}

bool hsp_name_in(const char *text, const char *name)
{
    size_t i = 0;
    struct hsp_name_range r;
    while (text[i] != '\0' && text[i] != '[' && text[i] == name[i]) {
        i++;
    }
    return text[i] == '[' ? hsp_range_parse(text, &r) && hsp_range_has(&r, name)
                          : text[i] == name[i];
}

/* ---- grouping ---- */

/* A name cut at its first part that is a number: prefix, number, suffix. */
struct cut_name {
    const char *text, *suffix;
    size_t prefix;
    uint32_t number;
};

/* @text NULL is an empty name. */
static struct cut_name cut(const char *text)
{
    struct cut_name c = {.text = text != NULL ? text : "", .suffix = ""};
    const char *p = c.text;
    for (;;) {
        const char *end = read_number(p, &c.number);
        if (end != NULL && (*end == '.' || *end == '#' || *end == '\0')) {
            c.prefix = (size_t)(p - c.text);
            c.suffix = end;
            return c;
        }
        const char *dot = strchr(p, '.');
        if (dot == NULL) {
            c.prefix = strlen(c.text);
            return c;
        }
        p = dot + 1;
    }
}

static bool is_numbered(const struct cut_name *c)
{
    return c->text[c->prefix] != '\0';
}

struct entry {
    struct cut_name name[HSP_LINE_NAMES];
    uint32_t line;
    uint32_t kind; /* order of the first line that is like it but for numbers */
};

static int by_kind(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    for (int k = 0; k < HSP_LINE_NAMES; k++) {
        if (x->name[k].number != y->name[k].number) {
            return x->name[k].number < y->name[k].number ? -1 : 1;
        }
    }
    return x->line < y->line ? -1 : x->line > y->line;
}

static bool follows(const struct entry *a, const struct entry *b)
{
    bool numbered = false;
    for (int k = 0; k < HSP_LINE_NAMES; k++) {
        if (is_numbered(&a->name[k])) {
            numbered = true;
            if (b->name[k].number != a->name[k].number + 1) {
                return false;
            }
        }
    }
    return a->kind == b->kind && numbered;
}

static enum hsp_status find_kinds(const struct hsp_line *line, struct entry *e, uint32_t n,
                                  struct hsp_err *err)
{
    struct hsp_map kinds;
    struct hsp_buf key;
    enum hsp_status rc = HSP_OK;
    hsp_map_init(&kinds, (size_t)n + 1);
    hsp_buf_init(&key, (size_t)1 << 16);
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        hsp_buf_reset(&key);
        for (int k = 0; k < HSP_LINE_NAMES; k++) {
            const struct cut_name *c = &e[i].name[k];
            hsp_buf_append(&key, c->text, c->prefix);
            hsp_buf_printf(&key, "\n%s\n", c->suffix);
        }
        hsp_buf_printf(&key, "%016llx%016llx", (unsigned long long)line[i].rest.hi,
                       (unsigned long long)line[i].rest.lo);
        e[i].kind = i;
        const char *text = hsp_buf_cstr(&key);
        if (key.failed) {
            rc = HSP_ENOMEM;
        } else if (!hsp_map_get(&kinds, text, &e[i].kind)) {
            rc = hsp_map_put(&kinds, text, i);
        }
    }
    hsp_buf_fini(&key);
    hsp_map_fini(&kinds);
    return rc == HSP_OK ? HSP_OK : hsp_err_about(err, rc, "grouping %u lines", n);
}

/* The name of the run of @len lines that begins at @e. */
static const char *run_name(const struct cut_name *c, uint32_t len, struct hsp_arena *arena)
{
    return len == 1 || !is_numbered(c)
               ? hsp_arena_strdup(arena, c->text)
               : hsp_arena_printf(arena, "%.*s[%u-%u]%s", (int)c->prefix, c->text, c->number,
                                  c->number + len - 1, c->suffix);
}

enum hsp_status hsp_lines_group(const struct hsp_line *line, uint32_t n, struct hsp_arena *arena,
                                struct hsp_name_run **ret, uint32_t *ret_n, struct hsp_err *err)
{
    struct entry *e = calloc((size_t)n + 1, sizeof *e);
    struct hsp_name_run *run = hsp_arena_array(arena, n, sizeof *run);
    uint32_t n_runs = 0;
    enum hsp_status rc = e == NULL || run == NULL ? HSP_ENOMEM : HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        e[i].line = i;
        for (int k = 0; k < HSP_LINE_NAMES; k++) {
            e[i].name[k] = cut(line[i].name[k]);
        }
    }
    if (rc == HSP_OK) {
        rc = find_kinds(line, e, n, err);
    }
    if (rc == HSP_OK && n > 0) {
        qsort(e, n, sizeof *e, by_kind);
    }
    for (uint32_t i = 0, len; rc == HSP_OK && i < n; i += len) {
        len = 1;
        while (i + len < n && follows(&e[i + len - 1], &e[i + len])) {
            len++;
        }
        struct hsp_name_run *r = &run[n_runs++];
        r->line = e[i].line;
        for (int k = 0; rc == HSP_OK && k < HSP_LINE_NAMES; k++) {
            r->name[k] = line[r->line].name[k] != NULL ? run_name(&e[i].name[k], len, arena) : NULL;
            rc = line[r->line].name[k] != NULL && r->name[k] == NULL ? HSP_ENOMEM : HSP_OK;
        }
    }
    free(e);
    *ret = run;
    *ret_n = n_runs;
    return rc == HSP_OK ? HSP_OK : hsp_err_about(err, rc, "grouping %u lines", n);
}
