#include "proto/text/yaml_parse.h"

#include "proto/text/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/base/vec.h"

struct loader {
    yaml_parser_t parser;
    const char *data;
    size_t len;
    const char *name;
    struct hsp_arena *arena;
    struct hsp_err *err;
    size_t n_nodes;
    unsigned depth;
};

static enum hsp_status fail_at(const struct loader *l, enum hsp_status code, yaml_mark_t at,
                               const char *what)
{
    return hsp_err_set(l->err, code, 0, "%s:%zu:%zu: %s", l->name, at.line + 1, at.column + 1,
                       what);
}

/* The bytes before the place where libyaml stopped, which counts characters. */
static size_t bytes_before(const struct loader *l)
{
    size_t at = 0;
    for (size_t left = l->parser.problem_mark.index; at < l->len; at++) {
        bool begins = ((uint8_t)l->data[at] & 0xc0) != 0x80;
        if (begins && left-- == 0) {
            break;
        }
    }
    return at;
}

/* Adds to libyaml's words, "" nothing: it stops behind the mistake, and shows no tab. */
static const char *hint(const struct loader *l, const char *what)
{
    size_t at = bytes_before(l), line = at;
    while (line > 0 && l->data[line - 1] != '\n') {
        line--;
    }
    if (strcmp(what, "mapping values are not allowed in this context") == 0) {
        return memmem(l->data + line, at - line, ": ", 2) != NULL
                   ? "; a value that holds \": \" stands in quotes"
                   : "; the line above may lack the \": \" behind its key, or be indented "
                     "otherwise";
    }
    return at < l->len && l->data[at] == '\t' ? "; indent with blanks, not with tabs" : "";
}

static enum hsp_status next_event(struct loader *l, yaml_event_t *ret)
{
    if (yaml_parser_parse(&l->parser, ret)) {
        return HSP_OK;
    }
    if (l->parser.error == YAML_MEMORY_ERROR) {
        return hsp_err_nomem(l->err, "%s after %zu nodes", l->name, l->n_nodes);
    }
    const char *what = l->parser.problem != NULL ? l->parser.problem : "malformed text";
    if (l->parser.error == YAML_READER_ERROR) {
        /* Bad encoding: libyaml gives no position in lines, but its mark is where it got to. */
        return fail_at(l, HSP_EPARSE, l->parser.mark, what);
    }
    char text[160];
    (void)snprintf(text, sizeof text, "%s%s", what, hint(l, what));
    return fail_at(l, HSP_EPARSE, l->parser.problem_mark, text);
}

static bool is_null(const char *text)
{
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static enum hsp_status load_node(struct loader *l, const yaml_event_t *ev, struct hsp_yaml *ret);

static enum hsp_status load_scalar(struct loader *l, const yaml_event_t *ev, struct hsp_yaml *ret)
{
    const char *text = (const char *)ev->data.scalar.value;
    if (ev->data.scalar.anchor != NULL || ev->data.scalar.tag != NULL) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "anchors and tags are not supported");
    }
    if (memchr(text, 0, ev->data.scalar.length) != NULL) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "text contains a NUL character");
    }
    ret->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    ret->kind = !ret->quoted && is_null(text) ? HSP_YAML_NULL : HSP_YAML_SCALAR;
    if (ret->kind == HSP_YAML_SCALAR) {
        ret->text = hsp_arena_strndup(l->arena, text, ev->data.scalar.length);
        if (ret->text == NULL) {
            return hsp_err_nomem(l->err, "%s after %zu nodes", l->name, l->n_nodes);
        }
    }
    return HSP_OK;
}

/* Reads a key event into the key fields of *item, then the event of its value into *ev. */
static enum hsp_status load_key(struct loader *l, struct hsp_map *seen, yaml_event_t *ev,
                                struct hsp_yaml *item)
{
    if (ev->type == YAML_ALIAS_EVENT) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "aliases are not supported");
    }
    if (ev->type != YAML_SCALAR_EVENT) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "a key must be a scalar");
    }
    struct hsp_yaml key = {0};
    enum hsp_status rc = load_scalar(l, ev, &key);
    if (rc != HSP_OK) {
        return rc;
    }
    item->key = key.text != NULL ? key.text : "";
    item->key_line = (uint32_t)ev->start_mark.line + 1;
    item->key_column = (uint32_t)ev->start_mark.column + 1;
    if (strlen(item->key) > HSP_YAML_MAX_KEY) {
        return hsp_err_set(l->err, HSP_ELIMIT, 0, "%s:%u:%u: a key of more than %d bytes", l->name,
                           item->key_line, item->key_column, HSP_YAML_MAX_KEY);
    }
    if (hsp_map_get(seen, item->key, NULL)) {
        return hsp_err_set(l->err, HSP_EPARSE, 0, "%s:%u:%u: key \"%.60s\" appears twice", l->name,
                           item->key_line, item->key_column, item->key);
    }
    if (hsp_map_put(seen, item->key, 0) != HSP_OK) {
        return hsp_err_nomem(l->err, "%s after %zu nodes", l->name, l->n_nodes);
    }
    yaml_event_delete(ev);
    memset(ev, 0, sizeof(*ev));
    return next_event(l, ev);
}

/* The children up to the end event, as a heap array (the caller frees it in every case). */
static enum hsp_status load_children(struct loader *l, bool map, struct hsp_yaml **items, size_t *n,
                                     struct hsp_map *seen)
{
    size_t cap = 0;
    for (;;) {
        yaml_event_t ev;
        memset(&ev, 0, sizeof(ev));
        enum hsp_status rc = next_event(l, &ev);
        if (rc != HSP_OK) {
            return rc;
        }
        if (ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&ev);
            return HSP_OK;
        }
        if (!hsp_grow(items, &cap, *n + 1, sizeof(**items), HSP_YAML_MAX_NODES)) {
            yaml_event_delete(&ev);
            return hsp_err_nomem(l->err, "%s after %zu nodes", l->name, l->n_nodes);
        }
        struct hsp_yaml *item = &(*items)[*n];
        rc = map ? load_key(l, seen, &ev, item) : HSP_OK;
        if (rc == HSP_OK) {
            rc = load_node(l, &ev, item);
            (*n)++;
        }
        yaml_event_delete(&ev);
        if (rc != HSP_OK) {
            return rc;
        }
    }
}

static enum hsp_status load_collection(struct loader *l, bool map, struct hsp_yaml *ret)
{
    struct hsp_yaml *items = NULL;
    size_t n = 0;
    struct hsp_map seen;
    hsp_map_init(&seen, HSP_YAML_MAX_NODES);
    enum hsp_status rc = load_children(l, map, &items, &n, &seen);
    if (rc == HSP_OK) {
        ret->kind = map ? HSP_YAML_MAP : HSP_YAML_SEQ;
        ret->n = n;
        ret->items = hsp_arena_memdup(l->arena, items, n * sizeof(*items)); /* n was allocated */
        if (ret->items == NULL) {
            rc = hsp_err_nomem(l->err, "%s after %zu nodes", l->name, l->n_nodes);
        }
    }
    free(items);
    hsp_map_fini(&seen);
    return rc;
}

static enum hsp_status load_node(struct loader *l, const yaml_event_t *ev, struct hsp_yaml *ret)
{
    ret->file = l->name;
    ret->line = (uint32_t)ev->start_mark.line + 1;
    ret->column = (uint32_t)ev->start_mark.column + 1;
    if (++l->n_nodes > HSP_YAML_MAX_NODES) {
        return fail_at(l, HSP_ELIMIT, ev->start_mark, "too many values");
    }
    if (ev->type == YAML_SCALAR_EVENT) {
        return load_scalar(l, ev, ret);
    }
    if (ev->type == YAML_ALIAS_EVENT) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "aliases are not supported");
    }
    bool map = ev->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *anchor =
        map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor;
    const yaml_char_t *tag = map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag;
    if (anchor != NULL || tag != NULL) {
        return fail_at(l, HSP_EPARSE, ev->start_mark, "anchors and tags are not supported");
    }
    if (l->depth == HSP_YAML_MAX_DEPTH) {
        return fail_at(l, HSP_ELIMIT, ev->start_mark, "nested too deeply");
    }
    l->depth++;
    enum hsp_status rc = load_collection(l, map, ret);
    l->depth--;
    return rc;
}

/* STREAM-START (DOCUMENT-START node DOCUMENT-END)? STREAM-END */
static enum hsp_status load_stream(struct loader *l, struct hsp_yaml *root)
{
    bool have_root = false;
    for (;;) {
        yaml_event_t ev;
        memset(&ev, 0, sizeof(ev));
        enum hsp_status rc = next_event(l, &ev);
        if (rc != HSP_OK) {
            return rc;
        }
        bool end = ev.type == YAML_STREAM_END_EVENT;
        bool frame = ev.type == YAML_STREAM_START_EVENT || ev.type == YAML_DOCUMENT_END_EVENT;
        if (ev.type == YAML_DOCUMENT_START_EVENT) {
            rc = have_root ? fail_at(l, HSP_EPARSE, ev.start_mark, "more than one document")
                           : HSP_OK;
        } else if (!end && !frame) {
            rc = load_node(l, &ev, root);
            have_root = true;
        }
        yaml_event_delete(&ev);
        if (rc != HSP_OK || end) {
            return rc;
        }
    }
}

enum hsp_status hsp_yaml_parse(const char *name, const void *data, size_t len,
                               struct hsp_arena *arena, const struct hsp_yaml **ret,
                               struct hsp_err *err)
{
    if (len > HSP_YAML_MAX_BYTES) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%s: %zu bytes, the limit is %d", name, len,
                           HSP_YAML_MAX_BYTES);
    }
    struct loader l = {.data = data, .len = len, .arena = arena, .err = err};
    l.name = hsp_arena_strdup(arena, name);
    struct hsp_yaml *root = hsp_arena_alloc(arena, sizeof(*root));
    if (l.name == NULL || root == NULL || !yaml_parser_initialize(&l.parser)) {
        return hsp_err_nomem(err, "%s", name);
    }
    *root = (struct hsp_yaml){.kind = HSP_YAML_NULL, .file = l.name, .line = 1, .column = 1};
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, len > 0 ? data : (const void *)"", len);
    enum hsp_status rc = load_stream(&l, root);
    yaml_parser_delete(&l.parser);
    if (rc == HSP_OK) {
        *ret = root;
    }
    return rc;
}
