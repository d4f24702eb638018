/* Lays out tables by libsmartcols. Its own limits of width cut or break words, so texts are folded
 * here, and it is told of no terminal. */
#include "daemon/ctl/table.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl.h"
#include "proto/base/check.h"

#define COLUMNS_MAX  16
#define LEAST_FOLDED 24 /* characters in a line of a folded text */
#define INDENT       4  /* of one below its row */

struct hsp_table {
    struct hsp_ctl *ctl;
    struct libscols_table *t;
    const struct hsp_column *columns;
    size_t n;
    bool failed; /* no memory */
};

static void lack(struct hsp_ctl *ctl)
{
    struct hsp_err err;
    (void)hsp_err_nomem(&err, "a table");
    hsp_ctl_defer_error(ctl, &err);
}

struct hsp_table *hsp_table_new(struct hsp_ctl *ctl, const struct hsp_column *columns, size_t n)
{
    struct hsp_table *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        lack(ctl);
        return NULL;
    }
    scols_init_debug(0);
    HSP_ASSERT(n <= COLUMNS_MAX);
    *t = (struct hsp_table){.ctl = ctl, .t = scols_new_table(), .columns = columns, .n = n};
    t->failed = t->t == NULL || scols_table_enable_noheadings(t->t, ctl->headers ? 0 : 1) != 0 ||
                scols_table_set_termforce(t->t, SCOLS_TERMFORCE_NEVER) != 0;
    for (size_t i = 0; i < n && !t->failed; i++) {
        int flags = columns[i].kind == true ? SCOLS_FL_RIGHT : 0;
        t->failed = scols_table_new_column(t->t, columns[i].title, 0, flags) == NULL;
    }
    return t;
}

void hsp_table_row(struct hsp_table *t, const char *const *cells)
{
    if (t == NULL || t->failed) {
        return;
    }
    struct libscols_line *line = scols_table_new_line(t->t, NULL);
    t->failed = line == NULL;
    for (size_t i = 0; i < t->n && !t->failed; i++) {
        t->failed = scols_line_set_data(line, i, cells[i] != NULL ? cells[i] : "-") != 0;
    }
}

/* ---- texts that take several lines ---- */

static bool begins_char(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80; /* UTF-8 */
}

static size_t n_chars(const char *s)
{
    size_t n = 0;
    for (; *s != '\0'; s++) {
        n += begins_char(*s);
    }
    return n;
}

static struct libscols_cell *cell(const struct hsp_table *t, size_t row, size_t column)
{
    return scols_line_get_cell(scols_table_get_line(t->t, row), column);
}

static size_t width_of(const struct hsp_table *t, size_t column)
{
    size_t max = t->ctl->headers ? n_chars(t->columns[column].title) : 0;
    for (size_t i = 0; i < scols_table_get_nlines(t->t); i++) {
        size_t n = n_chars(scols_cell_get_data(cell(t, i, column)));
        max = n > max ? n : max;
    }
    return max;
}

enum layout { WHOLE, FOLDED, BELOW };

/* Decides how the table fits, and the widths of its columns: the folded ones share the room of the
 * others. */
static enum layout share_width(const struct hsp_table *t, size_t width[COLUMNS_MAX])
{
    size_t left = t->ctl->width, n = 0, all = t->n - 1, fixed = t->n - 1;
    for (size_t i = 0; i < t->n; i++) {
        bool folded = t->columns[i].kind == HSP_FOLDED;
        width[i] = width_of(t, i);
        all += width[i];
        fixed += folded ? 0 : width[i];
        n += folded;
    }
    if (left == 0 || all <= left || n == 0 || fixed + n * LEAST_FOLDED > left) {
        return left == 0 || all <= left || n == 0 ? WHOLE : BELOW;
    }
    bool done[COLUMNS_MAX] = {false};
    for (left -= fixed; n > 0; n--) { /* the narrowest first: others get its spare room */
        size_t best = t->n;
        for (size_t i = 0; i < t->n; i++) {
            bool may = t->columns[i].kind == HSP_FOLDED && !done[i];
            best = may && (best == t->n || width[i] < width[best]) ? i : best;
        }
        width[best] = width[best] < left / n ? width[best] : left / n;
        left -= width[best];
        done[best] = true;
    }
    return FOLDED;
}

/* @s in lines of at most @width characters, broken at spaces; a longer word is broken. */
static const char *fold(struct hsp_ctl *ctl, const char *s, size_t width)
{
    char *to = hsp_arena_array(ctl->arena, 2 * strlen(s) + 1, 1);
    size_t n = 0, space = 0, in_line = 0;
    for (; to != NULL && *s != '\0'; s++) {
        if (begins_char(*s) && in_line++ == width) {
            if (*s == ' ') {
                to[n++] = '\n';
                space = in_line = 0;
                continue;
            }
            if (space != 0) {
                to[space - 1] = '\n';
                to[n] = '\0';
                in_line = n_chars(to + space) + 1;
            } else {
                to[n++] = '\n';
                in_line = 1;
            }
            space = 0;
        }
        to[n++] = *s;
        space = *s == ' ' ? n : space;
    }
    if (to != NULL) {
        to[n] = '\0';
    }
    return to;
}

/* False: without memory. */
static bool fold_column(struct hsp_table *t, size_t column, size_t width)
{
    struct libscols_column *c = scols_table_get_column(t->t, column);
    bool ok =
        scols_column_set_flags(c, SCOLS_FL_WRAP) == 0 && scols_column_set_safechars(c, "\n") == 0 &&
        scols_column_set_wrapfunc(c, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL) == 0;
    for (size_t i = 0; i < scols_table_get_nlines(t->t) && ok; i++) {
        const char *text = fold(t->ctl, scols_cell_get_data(cell(t, i, column)), width);
        ok = text != NULL && scols_cell_set_data(cell(t, i, column), text) == 0;
    }
    return ok;
}

static bool print_folded(struct hsp_table *t, const size_t width[COLUMNS_MAX])
{
    bool ok = true;
    for (size_t i = 0; i < t->n; i++) {
        ok = ok && (t->columns[i].kind != HSP_FOLDED || fold_column(t, i, width[i]));
    }
    return ok && scols_print_table(t->t) == 0;
}

/* "    REASON: cannot ...", where there is one. */
static bool print_below(struct hsp_table *t, size_t row, size_t column)
{
    const char *text = scols_cell_get_data(cell(t, row, column));
    const char *all = hsp_arena_printf(t->ctl->arena, "%s: %s", t->columns[column].title, text),
               *end;
    if (text[0] == '\0') {
        return true;
    }
    size_t left = t->ctl->width > 2 * INDENT ? t->ctl->width - INDENT : INDENT;
    all = all != NULL ? fold(t->ctl, all, left) : NULL;
    for (const char *s = all; s != NULL; s = *end != '\0' ? end + 1 : NULL) {
        end = strchrnul(s, '\n');
        (void)fprintf(t->ctl->out, "%*s%.*s\n", INDENT, "", (int)(end - s), s);
    }
    return all != NULL; /* a failing write shows when the output is closed */
}

/* Row by row. */
static bool print_rows(struct hsp_table *t)
{
    size_t n = scols_table_get_nlines(t->t);
    bool ok = true;
    for (size_t i = 0; i < t->n && ok; i++) {
        struct libscols_column *c = scols_table_get_column(t->t, i);
        ok = t->columns[i].kind != HSP_FOLDED || scols_column_set_flags(c, SCOLS_FL_HIDDEN) == 0;
    }
    for (size_t i = 0; i < n && ok; i++) {
        struct libscols_line *line = scols_table_get_line(t->t, i);
        ok = scols_table_print_range(t->t, line, line) == 0;
        (void)fputs(i + 1 == n ? "\n" : "", t->ctl->out); /* the library leaves out the last one */
        for (size_t k = 0; k < t->n && ok; k++) {
            ok = t->columns[k].kind != HSP_FOLDED || print_below(t, i, k);
        }
    }
    return ok;
}

static bool print(struct hsp_table *t)
{
    size_t width[COLUMNS_MAX];
    enum layout how = share_width(t, width);
    return how == FOLDED  ? print_folded(t, width)
           : how == BELOW ? print_rows(t)
                          : scols_print_table(t->t) == 0;
}

bool hsp_table_print(struct hsp_table *t)
{
    if (t == NULL) {
        return false;
    }
    /* Straight to the answer, whose errors are looked at in the end: a string would be cut
     * in silence when it cannot grow. The library leaves out parts for which it has no memory;
     * malloc says so. */
    errno = 0;
    bool ok =
        !t->failed && scols_table_set_stream(t->t, t->ctl->out) == 0 && print(t) && errno != ENOMEM;
    if (!ok) {
        lack(t->ctl);
    }
    scols_unref_table(t->t);
    free(t);
    return ok;
}
