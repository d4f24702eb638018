/* See table.h. */
#include "daemon/ctl/table.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>

#include "daemon/ctl/ctl.h"

struct hsp_table {
    struct hsp_ctl *ctl;
    struct libscols_table *t;
    size_t n;
    bool failed; /* no memory */
};

static void lack(struct hsp_ctl *ctl)
{
    struct hsp_err err;
    (void)hsp_err_nomem(&err, "a table");
    hsp_ctl_flaw(ctl, &err);
}

struct hsp_table *hsp_table_new(struct hsp_ctl *ctl, const struct hsp_column *columns, size_t n)
{
    struct hsp_table *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        lack(ctl);
        return NULL;
    }
    scols_init_debug(0);
    *t = (struct hsp_table){.ctl = ctl, .t = scols_new_table(), .n = n};
    t->failed = t->t == NULL || scols_table_enable_noheadings(t->t, ctl->headers ? 0 : 1) != 0;
    for (size_t i = 0; i < n && !t->failed; i++) {
        int flags = columns[i].right ? SCOLS_FL_RIGHT : 0;
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

bool hsp_table_print(struct hsp_table *t)
{
    if (t == NULL) {
        return false;
    }
    /* Straight to the answer, whose errors are looked at in the end: a string would be cut
     * in silence when it cannot grow. The library leaves out what it has no memory for;
     * malloc says so. */
    errno = 0;
    bool ok = !t->failed && scols_table_set_stream(t->t, t->ctl->out) == 0 &&
              scols_print_table(t->t) == 0 && errno != ENOMEM;
    if (!ok) {
        lack(t->ctl);
    }
    scols_unref_table(t->t);
    free(t);
    return ok;
}
