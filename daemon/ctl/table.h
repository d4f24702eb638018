/* Tables on libsmartcols: text cells in columns, to any stream.
 *
 * Purity: shell. Errors are sticky: hsp_table_print says false once anything failed. */
#ifndef HSP_TABLE_H
#define HSP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct hsp_column {
    const char *title;
    bool right; /* numbers */
};

struct hsp_table; /* opaque */

/* Never NULL is needed: without memory every later call does nothing and print says false. */
struct hsp_table *hsp_table_new(const struct hsp_column *columns, size_t n, bool headers);
/* @cells: one text for each column; NULL prints "-". Texts are copied. */
void hsp_table_row(struct hsp_table *t, const char *const *cells);
/* Writes and frees the table. */
bool hsp_table_print(struct hsp_table *t, FILE *out);

#endif
