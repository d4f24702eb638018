/* Prints tables by libsmartcols: text cells in columns, to the answer of a command.
 *
 * Where the answer goes to a terminal that is too narrow for it, HSP_FOLDED columns share the room
 * that the others leave, and their texts take several lines. Example: of 120 characters the others
 * and the spaces take 60, CAUSE has 30, PLAN 200: CAUSE gets 30, PLAN 30. Where that leaves them
 * less than 24 each, as on 100 characters, they stand in lines of their own below each row.
 *
 * Purity: shell. Errors are sticky: a table that failed is none, and is a deferred error of the
 *         answer. */
#ifndef HSP_TABLE_H
#define HSP_TABLE_H

#include "daemon/ctl/command.h"

#define HSP_FOLDED 2 /* kind of a column */

struct hsp_column {
    const char *title;
    int kind; /* false: texts; true: numbers, which stand at the right; HSP_FOLDED: long texts */
};

struct hsp_table; /* opaque */

/* NULL without memory, which is a deferred error: every later call takes it and does nothing. */
struct hsp_table *hsp_table_new(struct hsp_ctl *ctl, const struct hsp_column *columns, size_t n);
/* @cells: one text for each column; NULL prints "-". Texts are copied. */
void hsp_table_row(struct hsp_table *t, const char *const *cells);
/* Writes and frees the table. False: there is a deferred error. */
bool hsp_table_print(struct hsp_table *t);

#endif
