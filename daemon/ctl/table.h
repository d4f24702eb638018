/* Tables on libsmartcols: text cells in columns, to the answer of a command.
 *
 * Purity: shell. Errors are sticky: a table that failed is none, and is a flaw of the answer. */
#ifndef HSP_TABLE_H
#define HSP_TABLE_H

#include "daemon/ctl/command.h"

struct hsp_column {
    const char *title;
    bool right; /* numbers */
};

struct hsp_table; /* opaque */

/* NULL without memory, which is a flaw: every later call takes it and does nothing. */
struct hsp_table *hsp_table_new(struct hsp_ctl *ctl, const struct hsp_column *columns, size_t n);
/* @cells: one text for each column; NULL prints "-". Texts are copied. */
void hsp_table_row(struct hsp_table *t, const char *const *cells);
/* Writes and frees the table. False: there is a flaw. */
bool hsp_table_print(struct hsp_table *t);

#endif
