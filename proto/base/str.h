/* Parses scalars strictly, suggests the nearest word, and cuts texts between characters.
 *
 * Purity: pure. Every parser reads the whole string or fails; no white space, no sign "+", no
 * locale. On failure *ret is untouched.
 */
#ifndef HSP_STR_H
#define HSP_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HSP_EDIT_MAX = 64 }; /* longer words are never suggested */

/* Returns the Levenshtein distance; SIZE_MAX if a word is longer than HSP_EDIT_MAX. */
size_t hsp_edit_distance(const char *a, const char *b);

/* Returns the word of @list with the least edit distance to @word; of several the first. Returns
 * NULL if that distance is above both 2 and a third of the length of @word, or not below that
 * length. */
const char *hsp_str_nearest(const char *word, const char *const *list, size_t n);

bool hsp_parse_i64(const char *s, int64_t *ret);
bool hsp_parse_u64(const char *s, uint64_t *ret);

/* Decimal notation with optional fraction and exponent; finite. */
bool hsp_parse_f64(const char *s, double *ret);

/* "4096", "512MiB", "1.5GiB", "80G": units K, M, G, T with or without "iB" or "B" are powers of
 * 1024, as with systemd; a bare number is bytes. At most 3 digits of fraction. */
bool hsp_parse_bytes(const char *s, uint64_t *ret);

/* "500ms", "3s", "2m", "1h"; a unit is required. Milliseconds. At most 3 digits of fraction. */
bool hsp_parse_ms(const char *s, uint64_t *ret);

/* Returns the ending of a noun for @n things, as in "%u device%s". */
static inline const char *hsp_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Names of jobs, nodes, devices: 1 to 63 of a-z 0-9 - . with alphanumeric ends. */
bool hsp_name_valid(const char *s);

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool hsp_utf8_valid(const uint8_t *s, size_t len);

/* Turns a text that was cut or came from outside into valid UTF-8, in place: removes an incomplete
 * character at the end, and replaces any other invalid byte by "?". */
void hsp_utf8_mend(char *s);

/* Makes a foreign text fit for a terminal. Invisible characters (controls, line and paragraph
 * separators, marks of zero width or that turn the direction of writing) and bytes that are not
 * UTF-8 are shown by their code, as JSON does: "\u001b", "\ufffd". @lines: newlines and tabs stay.
 * Writes as many whole characters as fit into @dst, with a NUL when @cap > 0. Returns the length of
 * all. @dst is not in @s. */
size_t hsp_str_show(char *dst, size_t cap, const char *s, size_t len, bool lines);

/* Formats like snprintf into the @size > 0 bytes of @dst and makes the result valid UTF-8, for
 * texts in messages, whose receivers refuse invalid UTF-8. A text that is too long is cut between
 * two characters. The arguments must not be in @dst. */
void hsp_str_printf(char *dst, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Formats a text that people read in the same way; if it is cut, it ends with "...". @size > 4. */
void hsp_str_tell(char *dst, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hsp_str_vtell(char *dst, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

#endif
