/* Merges the layers. The happy path is: the file becomes a map, settings replace or add children of
 * it, and the table loads the merged map, so that one place checks keys, types and ranges of values
 * from anywhere. A node's `file` names the layer that it came from. */
#include "proto/text/layers.h"

#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/str.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"

static enum hsp_status add(struct hsp_layers *l, struct hsp_setting s, struct hsp_err *err)
{
    if (s.key == NULL || s.text == NULL || s.where == NULL) {
        return hsp_err_nomem(err, "a layer of the configuration");
    }
    if (!hsp_utf8_valid((const uint8_t *)s.text, strlen(s.text))) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s: %.60s: the value is not UTF-8 text", s.where,
                           s.key);
    }
    if (l->n == HSP_LAYERS_SETTINGS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%s: more than %u settings beside the file", s.where,
                           HSP_LAYERS_SETTINGS);
    }
    l->setting[l->n++] = s;
    return HSP_OK;
}

enum hsp_status hsp_layers_env(struct hsp_layers *l, const char *prefix, char *const *env,
                               struct hsp_arena *arena, struct hsp_err *err)
{
    size_t skip = strlen(prefix);
    enum hsp_status st = HSP_OK;
    for (; st == HSP_OK && env != NULL && *env != NULL; env++) {
        const char *eq = strchr(*env, '=');
        if (eq == NULL || strncmp(*env, prefix, skip) != 0) {
            continue;
        }
        char *key = hsp_arena_strndup(arena, *env + skip, (size_t)(eq - *env) - skip);
        for (char *c = key; c != NULL && *c != '\0'; c++) {
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        }
        struct hsp_setting s = {
            key, hsp_arena_strdup(arena, eq + 1),
            hsp_arena_printf(arena, "environment %.*s", (int)(eq - *env), *env)};
        st = add(l, s, err);
    }
    return st;
}

enum hsp_status hsp_layers_arg(struct hsp_layers *l, const char *text, struct hsp_arena *arena,
                               struct hsp_err *err)
{
    const char *eq = strchr(text, '=');
    if (eq == NULL || eq == text) {
        return hsp_err_set(err, HSP_EINVAL, 0, "--set %.100s: it is written KEY=VALUE", text);
    }
    struct hsp_setting s = {hsp_arena_strndup(arena, text, (size_t)(eq - text)),
                            hsp_arena_strdup(arena, eq + 1), "command line"};
    return add(l, s, err);
}

/* Makes a node of the map from a setting. The value of a text field is taken as it is: there "a: b"
 * is a text and no map. */
static enum hsp_status node_of(const struct hsp_setting *s, const struct hsp_cfg_field *fields,
                               size_t n, struct hsp_arena *arena, struct hsp_yaml *ret,
                               struct hsp_err *err)
{
    bool text = s->text[0] == '\0';
    for (size_t i = 0; i < n; i++) {
        text = text || (strcmp(fields[i].path, s->key) == 0 && fields[i].type == HSP_FIELD_STR);
    }
    const struct hsp_yaml plain = {
        .kind = HSP_YAML_SCALAR, .quoted = true, .file = s->where, .text = s->text};
    const struct hsp_yaml *node = &plain;
    enum hsp_status st = HSP_OK;
    if (!text) {
        st = hsp_yaml_parse(s->where, s->text, strlen(s->text), arena, &node, err);
    }
    if (st == HSP_OK) {
        *ret = *node;
        ret->line = ret->column = 1;
        ret->key = s->key;
        ret->key_line = ret->key_column = 1;
    }
    return st;
}

/* Adds the settings to the map of the file. A file that is no map stays as it is, and is refused
 * when it is loaded. */
static enum hsp_status merge(const struct hsp_layers *l, const struct hsp_cfg_field *fields,
                             size_t n, const struct hsp_yaml *file, struct hsp_arena *arena,
                             const struct hsp_yaml **ret, struct hsp_err *err)
{
    if (l->n == 0 || (file->kind != HSP_YAML_MAP && file->kind != HSP_YAML_NULL)) {
        *ret = file;
        return HSP_OK;
    }
    struct hsp_yaml *map = hsp_arena_alloc(arena, sizeof *map);
    struct hsp_yaml *items = hsp_arena_array(arena, file->n + l->n, sizeof *items);
    if (map == NULL || items == NULL) {
        return hsp_err_nomem(err, "a layer of the configuration");
    }
    *map = *file;
    map->kind = HSP_YAML_MAP;
    map->items = items;
    for (size_t i = 0; i < file->n; i++) {
        items[i] = file->items[i];
    }
    for (size_t i = 0; i < l->n; i++) {
        size_t at = 0;
        while (at < map->n && strcmp(items[at].key, l->setting[i].key) != 0) {
            at++;
        }
        map->n += at == map->n;
        enum hsp_status st = node_of(&l->setting[i], fields, n, arena, &items[at], err);
        if (st != HSP_OK) {
            return st;
        }
    }
    *ret = map;
    return HSP_OK;
}

static const char *origin_of(const struct hsp_layers *l, const struct hsp_yaml *map,
                             const struct hsp_cfg_field *f, struct hsp_arena *arena)
{
    const struct hsp_yaml *v = NULL;
    if (hsp_field_find(f, map, &v, NULL) != HSP_OK || v == NULL) {
        return "default";
    }
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(v->file, l->setting[i].where) == 0) {
            return v->file;
        }
    }
    return hsp_arena_printf(arena, "%s:%u", v->file, v->key_line);
}

enum hsp_status hsp_layers_load(const struct hsp_layers *l, const struct hsp_cfg_field *fields,
                                size_t n, struct hsp_arena *arena, void *dst,
                                const char **ret_origin, struct hsp_err *err)
{
    const struct hsp_yaml *file, *map = NULL;
    enum hsp_status st = hsp_yaml_parse(l->name, l->text, l->len, arena, &file, err);
    if (st == HSP_OK) {
        st = merge(l, fields, n, file, arena, &map, err);
    }
    if (st == HSP_OK) {
        st = hsp_fields_load(fields, n, map, arena, dst, NULL, err);
    }
    for (size_t i = 0; st == HSP_OK && ret_origin != NULL && i < n; i++) {
        ret_origin[i] = origin_of(l, map, &fields[i], arena);
        st = ret_origin[i] != NULL ? HSP_OK : hsp_err_nomem(err, "a layer of the configuration");
    }
    return st;
}

void hsp_layers_print(const struct hsp_cfg_field *fields, size_t n, const void *src,
                      const char *const *origin, struct hsp_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (fields[i].type == HSP_FIELD_NODE) {
            continue;
        }
        if (hsp_field_absent(&fields[i], src)) {
            hsp_buf_printf(out, "#%s:  # %s: none\n", fields[i].path, origin[i]);
            continue;
        }
        hsp_buf_printf(out, "%s: ", fields[i].path);
        hsp_field_put(&fields[i], src, out);
        hsp_buf_printf(out, "  # %s\n", origin[i]);
    }
}

void hsp_layers_example(const struct hsp_cfg_field *fields, size_t n, const char *intro,
                        struct hsp_buf *out)
{
    hsp_buf_printf(out, "# %s\n", intro);
    for (size_t i = 0; i < n; i++) {
        const char *value = fields[i].example != NULL ? fields[i].example : fields[i].dflt;
        hsp_buf_printf(out, "\n# %s\n", fields[i].help);
        hsp_buf_printf(out, "#%s: %s\n", fields[i].path, value != NULL ? value : "");
    }
}

void hsp_layers_apply(const struct hsp_cfg_field *fields, size_t n, void *dst, const void *src,
                      struct hsp_buf *ret_applied, struct hsp_buf *ret_restart)
{
    for (size_t i = 0; i < n; i++) {
        const struct hsp_cfg_field *f = &fields[i];
        if (hsp_field_same(f, dst, src)) {
            continue;
        }
        struct hsp_buf *out = f->live ? ret_applied : ret_restart;
        hsp_buf_printf(out, "%s%s", out->len > 0 ? ", " : "", f->path);
        if (f->live && f->type != HSP_FIELD_NODE) {
            hsp_buf_puts(out, " ");
            hsp_field_put(f, dst, out);
            hsp_buf_puts(out, " -> ");
            hsp_field_put(f, src, out);
            hsp_field_copy(f, dst, src);
        }
    }
}
