/* Parses and forms names with a range, so that lists of a total plan stay short where layers are
 * alike.
 *
 * Example: "h.[0-3].attn.q" stands for h.0.attn.q, h.1.attn.q, h.2.attn.q and h.3.attn.q.
 *
 * Purity:    pure.
 * Ownership: a range borrows its text; groups live in the arena given.
 * Bounds:    one range in a name, numbers below HSP_RANGE_END. */
#ifndef HSP_NAME_RANGE_H
#define HSP_NAME_RANGE_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

#define HSP_RANGE_END  65536 /* more layers than any model of graph.h has */
#define HSP_LINE_NAMES 2

struct hsp_name_range {
    const char *text;
    size_t prefix;      /* bytes of text before the number */
    const char *suffix; /* text behind it */
    uint32_t lo, n;     /* numbers lo .. lo + n - 1; a name without a range: n = 1, no suffix */
};

/* Returns false if a bracket is not [a-b] with a <= b < HSP_RANGE_END, or if there is a second
 * bracket. */
bool hsp_range_parse(const char *text, struct hsp_name_range *ret);
/* The @i-th name. */
void hsp_range_put(const struct hsp_name_range *r, uint32_t i, struct hsp_buf *out);
bool hsp_range_has(const struct hsp_name_range *r, const char *name);
/* Returns true if @name is one of the names that @text stands for; it is quick if the two begin
 * differently. */
bool hsp_name_in(const char *text, const char *name);

/* A line of a list: up to two names (NULL: none) and everything else it says. */
struct hsp_line {
    const char *name[HSP_LINE_NAMES];
    struct hsp_digest rest;
};
/* A run: lines that state the same of consecutive numbers, joined to one line. */
struct hsp_name_run {
    uint32_t line; /* the first of them */
    const char *name[HSP_LINE_NAMES];
};
/* Makes the runs, in the order of the first line of their kind, then of their numbers. */
enum hsp_status hsp_lines_group(const struct hsp_line *line, uint32_t n, struct hsp_arena *arena,
                                struct hsp_name_run **ret, uint32_t *ret_n, struct hsp_err *err);

#endif
