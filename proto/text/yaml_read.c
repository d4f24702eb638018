#include "proto/text/yaml_read.h"

#include "proto/text/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/str.h"

const struct hsp_yaml *hsp_yaml_get(const struct hsp_yaml *node, const char *key)
{
    if (node == NULL || node->kind != HSP_YAML_MAP) {
        return NULL;
    }
    for (size_t i = 0; i < node->n; i++) {
        if (strcmp(node->items[i].key, key) == 0) {
            return &node->items[i];
        }
    }
    return NULL;
}

const struct hsp_yaml *hsp_yaml_find(const struct hsp_yaml *node, const char *path)
{
    while (node != NULL) {
        size_t n = strcspn(path, ".");
        char key[128];
        if (n >= sizeof(key)) {
            return NULL; /* no key of ours is that long */
        }
        memcpy(key, path, n);
        key[n] = '\0';
        node = hsp_yaml_get(node, key);
        if (path[n] == '\0') {
            return node;
        }
        path += n + 1;
    }
    return NULL;
}

enum hsp_status hsp_yaml_error(const struct hsp_yaml *node, struct hsp_err *err, const char *fmt,
                               ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0) {
        text[0] = '\0';
    }
    va_end(ap);
    if (node->key != NULL && node->key[0] != '\0') {
        return hsp_err_set(err, HSP_EPARSE, 0, "%s:%u:%u: %.60s: %s", node->file, node->line,
                           node->column, node->key, text);
    }
    return hsp_err_set(err, HSP_EPARSE, 0, "%s:%u:%u: %s", node->file, node->line, node->column,
                       text);
}

/* The found value, for messages: text is cut, and made printable. */
struct found {
    char text[48];
};

static struct found describe(const struct hsp_yaml *node)
{
    struct found f = {"nothing"};
    switch (node->kind) {
    case HSP_YAML_NULL: break;
    case HSP_YAML_SEQ: memcpy(f.text, "a list", sizeof("a list")); break;
    case HSP_YAML_MAP: memcpy(f.text, "a map", sizeof("a map")); break;
    case HSP_YAML_SCALAR:
        (void)snprintf(f.text, sizeof(f.text), "\"%.32s%s\"", node->text,
                       strlen(node->text) > 32 ? "..." : ""); /* fits: 32 + 3 + 2 */
        for (char *p = f.text; *p != '\0'; p++) {
            *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
        }
        break;
    }
    return f;
}

static enum hsp_status unwanted(const struct hsp_yaml *node, const char *wanted,
                                struct hsp_err *err)
{
    const char *note = node->kind == HSP_YAML_SCALAR && node->quoted ? " in quotes" : "";
    return hsp_yaml_error(node, err, "wanted %s, found %s%s", wanted, describe(node).text, note);
}

enum hsp_status hsp_yaml_expect(const struct hsp_yaml *node, enum hsp_yaml_kind kind,
                                struct hsp_err *err)
{
    static const char *const names[] = {"nothing", "a value", "a list", "a map"};
    return node->kind == kind ? HSP_OK : unwanted(node, names[kind], err);
}

enum hsp_status hsp_yaml_renamed(const struct hsp_yaml *node, const char *key, const char *old,
                                 const struct hsp_yaml **ret, struct hsp_err *err)
{
    const struct hsp_yaml *now = hsp_yaml_get(node, key), *before = hsp_yaml_get(node, old);
    if (now != NULL && before != NULL) {
        return hsp_yaml_error(before, err, "the older name of %s, which is given too: delete %s",
                              key, old);
    }
    *ret = now != NULL ? now : before;
    return HSP_OK;
}

enum hsp_status hsp_yaml_str(const struct hsp_yaml *node, const char **ret, struct hsp_err *err)
{
    if (node->kind != HSP_YAML_SCALAR) {
        return unwanted(node, "a text", err);
    }
    *ret = node->text;
    return HSP_OK;
}

static bool plain(const struct hsp_yaml *node)
{
    return node->kind == HSP_YAML_SCALAR && !node->quoted;
}

enum hsp_status hsp_yaml_i64(const struct hsp_yaml *node, int64_t min, int64_t max, int64_t *ret,
                             struct hsp_err *err)
{
    int64_t v;
    if (!plain(node) || !hsp_parse_i64(node->text, &v)) {
        return unwanted(node, "an integer", err);
    }
    if (v < min || v > max) {
        return hsp_yaml_error(node, err, "%lld is outside %lld to %lld", (long long)v,
                              (long long)min, (long long)max);
    }
    *ret = v;
    return HSP_OK;
}

enum hsp_status hsp_yaml_u64(const struct hsp_yaml *node, uint64_t min, uint64_t max, uint64_t *ret,
                             struct hsp_err *err)
{
    uint64_t v;
    if (!plain(node) || !hsp_parse_u64(node->text, &v)) {
        return unwanted(node, "a non-negative integer", err);
    }
    if (v < min || v > max) {
        return hsp_yaml_error(node, err, "%llu is outside %llu to %llu", (unsigned long long)v,
                              (unsigned long long)min, (unsigned long long)max);
    }
    *ret = v;
    return HSP_OK;
}

enum hsp_status hsp_yaml_f64(const struct hsp_yaml *node, double min, double max, double *ret,
                             struct hsp_err *err)
{
    double v;
    if (!plain(node) || !hsp_parse_f64(node->text, &v)) {
        return unwanted(node, "a number", err);
    }
    if (v < min || v > max) {
        return hsp_yaml_error(node, err, "%g is outside %g to %g", v, min, max);
    }
    *ret = v;
    return HSP_OK;
}

enum hsp_status hsp_yaml_bool(const struct hsp_yaml *node, bool *ret, struct hsp_err *err)
{
    bool yes = plain(node) && strcmp(node->text, "true") == 0;
    if (!yes && !(plain(node) && strcmp(node->text, "false") == 0)) {
        return unwanted(node, "true or false", err);
    }
    *ret = yes;
    return HSP_OK;
}

enum hsp_status hsp_yaml_bytes(const struct hsp_yaml *node, uint64_t *ret, struct hsp_err *err)
{
    if (node->kind != HSP_YAML_SCALAR || !hsp_parse_bytes(node->text, ret)) {
        return unwanted(node, "a size such as 512MiB", err);
    }
    return HSP_OK;
}

enum hsp_status hsp_yaml_ms(const struct hsp_yaml *node, uint64_t *ret, struct hsp_err *err)
{
    if (node->kind != HSP_YAML_SCALAR || !hsp_parse_ms(node->text, ret)) {
        return unwanted(node, "a duration such as 3s", err);
    }
    return HSP_OK;
}

enum hsp_status hsp_yaml_choice(const struct hsp_yaml *node, const char *const *choices, size_t n,
                                size_t *ret, struct hsp_err *err)
{
    for (size_t i = 0; node->kind == HSP_YAML_SCALAR && i < n; i++) {
        if (strcmp(node->text, choices[i]) == 0) {
            *ret = i;
            return HSP_OK;
        }
    }
    char list[120];
    size_t len = 0;
    list[0] = '\0';
    for (size_t i = 0; i < n && len < sizeof(list); i++) {
        int k = snprintf(list + len, sizeof(list) - len, "%s%s",
                         i == 0 ? "" : (i + 1 == n ? " or " : ", "), choices[i]);
        len += k > 0 ? (size_t)k : 0; /* a cut list ends the loop */
    }
    return unwanted(node, list, err);
}

/* "; there are a, b and c"; false: more than @cap characters. */
static bool list_words(const char *intro, const char *const *words, size_t n, char *ret, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < n && len < cap; i++) {
        int k = snprintf(ret + len, cap - len, "%s%s",
                         i == 0       ? intro
                         : i + 1 == n ? " and "
                                      : ", ",
                         words[i]);
        len += k > 0 ? (size_t)k : 0;
    }
    return len < cap;
}

#define NEAREST 3 /* keys of a long list */

/* The nearest of @known, as far as they are few enough for @cap. */
static void list_nearest(const char *word, const char *const *known, size_t n, char *ret,
                         size_t cap)
{
    const char *best[NEAREST];
    char intro[48];
    size_t n_best = 0, least = 0;
    (void)snprintf(intro, sizeof intro, "; the nearest of %zu are ", n);
    while (n_best < NEAREST && n_best < n) { /* those at @least, then the next distance */
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < n && n_best < NEAREST; i++) {
            size_t d = hsp_edit_distance(word, known[i]);
            if (d == least) {
                best[n_best++] = known[i];
            }
            next = d > least && d < next ? d : next;
        }
        if (next == SIZE_MAX) {
            break;
        }
        least = next;
    }
    if (n_best < 2 || !list_words(intro, best, n_best, ret, cap)) {
        ret[0] = '\0';
    }
}

#define LEAST_SHARED 4 /* characters */

/* "state" -> "state_dir", "hidden_size" -> "hidden": the nearest of these; NULL: none. */
static const char *containing(const char *word, const char *const *known, size_t n)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        bool longer = strlen(word) >= LEAST_SHARED && strstr(known[i], word) != NULL;
        bool shorter = strlen(known[i]) >= LEAST_SHARED && strstr(word, known[i]) != NULL;
        if ((longer || shorter) &&
            (best == NULL || hsp_edit_distance(word, known[i]) < hsp_edit_distance(word, best))) {
            best = known[i];
        }
    }
    return best;
}

/* The word to write in place of the key @word. */
static void suggest(const char *word, const char *const *known, size_t n, char *ret, size_t cap)
{
    const char *near = hsp_str_nearest(word, known, n);
    near = near != NULL ? near : containing(word, known, n);
    if (near != NULL) {
        (void)snprintf(ret, cap, ", did you mean \"%.80s\"?", near);
    } else if (n < 2) {
        ret[0] = '\0';
    } else if (!list_words("; there are ", known, n, ret, cap)) {
        list_nearest(word, known, n, ret, cap);
    }
}

enum hsp_status hsp_yaml_check_keys(const struct hsp_yaml *node, const char *const *known, size_t n,
                                    struct hsp_err *err)
{
    for (size_t i = 0; node->kind == HSP_YAML_MAP && i < node->n; i++) {
        const struct hsp_yaml *item = &node->items[i];
        bool found = false;
        for (size_t k = 0; k < n && !found; k++) {
            found = strcmp(item->key, known[k]) == 0;
        }
        if (found) {
            continue;
        }
        char what[sizeof err->msg], more[sizeof err->msg];
        int len = snprintf(what, sizeof what, "%s:%u:%u: unknown key \"%.60s\"", item->file,
                           item->key_line, item->key_column, item->key);
        size_t left = len >= 0 && (size_t)len < sizeof what ? sizeof what - (size_t)len : 1;
        suggest(item->key, known, n, more, left);
        return hsp_err_set(err, HSP_EPARSE, 0, "%s%s", what, more);
    }
    return HSP_OK;
}

bool hsp_yaml_equal(const struct hsp_yaml *a, const struct hsp_yaml *b)
{
    if (a->kind != b->kind || a->n != b->n || (a->key == NULL) != (b->key == NULL) ||
        (a->key != NULL && strcmp(a->key, b->key) != 0)) {
        return false;
    }
    if (a->kind == HSP_YAML_SCALAR) {
        return strcmp(a->text, b->text) == 0;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!hsp_yaml_equal(&a->items[i], &b->items[i])) {
            return false; /* depth is bounded by the parser */
        }
    }
    return true;
}
