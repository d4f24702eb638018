/* Reads annotations from YAML and writes them in flow style on one line. The form is that of
 * annot.h; parse(dump(a)) is equal to a.
 *
 * Purity: pure. */
#ifndef HSP_ANNOT_TEXT_H
#define HSP_ANNOT_TEXT_H
#include "proto/layout/annot.h"

struct hsp_yaml;

/* Makes the tree of @y in @arena. HSP_EPARSE names file, line and key; HSP_ENOMEM. */
enum hsp_status hsp_annot_parse(const struct hsp_yaml *y, struct hsp_arena *arena,
                                struct hsp_annot **ret, struct hsp_err *err);
/* Appends the text of @a. */
void hsp_annot_dump(const struct hsp_annot *a, struct hsp_buf *out);

#endif
