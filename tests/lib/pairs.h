/* Makes the tables of tests/golden/sm: the actions of a machine in every state with every event.
 *
 *     hsp_pairs_begin(&p, "# ...\n");
 *     for each state { hsp_pairs_state(&p, name); for each event { hsp_pairs_add(&p, ...); } }
 *     hsp_pairs_end(&p, "sm/NAME.txt"); */
#ifndef HSP_PAIRS_H
#define HSP_PAIRS_H
#include "proto/base/buf.h"

struct hsp_pairs {
    struct hsp_buf table, quiet; /* quiet: events of this state that do nothing */
    uint32_t n_states, n;
};

/* @head: the text above the table. */
void hsp_pairs_begin(struct hsp_pairs *p, const char *head);
void hsp_pairs_state(struct hsp_pairs *p, const char *name);
/* @variant: "" for none; @reaction: " " and words, "" when nothing happens. */
void hsp_pairs_add(struct hsp_pairs *p, const char *event, const char *variant,
                   const char *reaction);
/* As hsp_golden_check. Releases everything. */
void hsp_pairs_end(struct hsp_pairs *p, const char *golden);

#endif
