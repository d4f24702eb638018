/* See table.h. */
#include "daemon/ctl/table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>

struct hsp_table {
    struct libscols_table *t;
    size_t n;
    bool failed;
};

struct hsp_table *hsp_table_new(const struct hsp_column *columns, size_t n, bool headers)
{
    struct hsp_table *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    scols_init_debug(0);
    t->t = scols_new_table();
    t->n = n;
    if (t->t == NULL) {
        t->failed = true;
        return t;
    }
    (void)scols_table_enable_noheadings(t->t, headers ? 0 : 1);
    for (size_t i = 0; i < n; i++) {
        int flags = columns[i].right ? SCOLS_FL_RIGHT : 0;
        if (scols_table_new_column(t->t, columns[i].title, 0, flags) == NULL) {
            t->failed = true;
        }
    }
    return t;
}

void hsp_table_row(struct hsp_table *t, const char *const *cells)
{
    if (t == NULL || t->failed) {
        return;
    }
    struct libscols_line *line = scols_table_new_line(t->t, NULL);
    if (line == NULL) {
        t->failed = true;
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        if (scols_line_set_data(line, i, cells[i] != NULL ? cells[i] : "-") != 0) {
            t->failed = true;
        }
    }
}

bool hsp_table_print(struct hsp_table *t, FILE *out)
{
    bool ok = t != NULL && !t->failed;
    char *text = NULL;
    if (ok) {
        ok = scols_print_table_to_string(t->t, &text) == 0;
    }
    if (ok && text != NULL) {
        ok = fputs(text, out) >= 0 && fputc('\n', out) != EOF;
    }
    free(text);
    if (t != NULL) {
        scols_unref_table(t->t);
        free(t);
    }
    return ok;
}
