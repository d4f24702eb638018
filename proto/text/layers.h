/* Merges a configuration from layers: defaults, a file, the environment, the command line.
 *
 * Role:      hspmdd and hspmd-worker read their configuration with this file at start and at
 *            reload. One table of fields (field.h) serves for reading, for the effective values
 *            with their origin (--print-config), for the commented example in conf/ and for the
 *            list of changes of a reload.
 * Purity:    pure: file text, environment and command line are arguments.
 * Ownership: results live in the arena given.
 * Bounds:    HSP_LAYERS_SETTINGS values from outside the file. Tables of such files are flat: a key
 *            is one word.
 */
#ifndef HSP_LAYERS_H
#define HSP_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/text/field.h"

#define HSP_LAYERS_SETTINGS 128u /* twice the keys of any table: each from both places */

struct hsp_arena;

/* One value from the environment or the command line. */
struct hsp_setting {
    const char *key, *text; /* text as it would stand in the file; "" is an empty text */
    const char *where;      /* "command line", "environment HSPMDD_LISTEN": for messages */
};

struct hsp_layers {
    const char *name; /* of the file, for messages and origins */
    const char *text; /* its content */
    size_t len;
    size_t n; /* settings, a later one wins over an earlier one and over the file */
    struct hsp_setting setting[HSP_LAYERS_SETTINGS];
};

/* Takes every variable of @env (NULL-terminated "NAME=value") whose name begins with @prefix: the
 * rest of the name in small letters is the key. The caller takes the environment before the command
 * line. HSP_EINVAL, HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_layers_env(struct hsp_layers *l, const char *prefix, char *const *env,
                               struct hsp_arena *arena, struct hsp_err *err);

/* Takes "KEY=VALUE" of the command line. HSP_EINVAL: @text has no "=" or no key, or its value is
 * not UTF-8 text; hsp_layers_env refuses a value that is not UTF-8 text in the same way.
 * HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_layers_arg(struct hsp_layers *l, const char *text, struct hsp_arena *arena,
                               struct hsp_err *err);

/* Fills @dst as hsp_fields_load does. @ret_origin (may be NULL): const char *[n], "default",
 * "FILE:LINE" or `where` of a setting. Messages begin with "FILE:LINE:COLUMN:" or with `where`. */
enum hsp_status hsp_layers_load(const struct hsp_layers *l, const struct hsp_cfg_field *fields,
                                size_t n, struct hsp_arena *arena, void *dst,
                                const char **ret_origin, struct hsp_err *err);

/* Writes a line "key: value  # origin" for every field except nodes; a key without a value is
 * commented out. The text, read again, gives the same configuration. */
void hsp_layers_print(const struct hsp_cfg_field *fields, size_t n, const void *src,
                      const char *const *origin, struct hsp_buf *out);

/* Applies a reload: copies from @src to @dst the fields that differ and may change while the
 * program runs (numbers and choices; the caller copies nodes), and lists them in @ret_applied
 * ("heartbeat 500ms -> 1s, devices"). Other fields that differ stay as they are, and are listed in
 * @ret_restart. Fields that may change hold no pointers except nodes. */
void hsp_layers_apply(const struct hsp_cfg_field *fields, size_t n, void *dst, const void *src,
                      struct hsp_buf *ret_applied, struct hsp_buf *ret_restart);

/* Writes the example file: @intro, then each key with its help and its default, commented out. */
void hsp_layers_example(const struct hsp_cfg_field *fields, size_t n, const char *intro,
                        struct hsp_buf *out);

#endif
