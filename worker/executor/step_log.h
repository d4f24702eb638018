/* Notes the metrics of committed steps in a file of the device: every rank learns every vote, so
 * any device that saw a step knows its loss. At the end of a job rank 0 merges the notes of all
 * ranks (step_gather.h).
 *
 * Purity: shell (a file per job and device in the state directory). */
#ifndef HSP_STEP_LOG_H
#define HSP_STEP_LOG_H
#include "worker/executor/epoch.h"

/* Appends the line of the step whose vote @v has passed; @sequence as in hsp_epoch_report_step.
 * HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err);

/* Appends the line of step @s, which rank 0 has sent to this replica holder. */
enum hsp_status hsp_metrics_note_said(const struct hsp_ex_epoch *e, const struct hsp_said_step *s,
                                      struct hsp_err *err);
/* Reads such a line, with or without its sum. Returns false if @line is no such line. */
bool hsp_metrics_said(const char *line, size_t n, struct hsp_said_step *ret);
/* Appends whole lines with their sums. HSP_EIO, HSP_ENOSPC: a part may have been appended. */
enum hsp_status hsp_notes_append(const struct hsp_ex_epoch *e, const char *text, size_t n,
                                 struct hsp_err *err);

/* A walk over the lines of a file of notes. */
struct hsp_notes_walk {
    uint32_t job;
    const char *at, *end;
};
enum hsp_note_kind {
    HSP_NOTE_DAMAGED,
    HSP_NOTE_TORN, /* half a line at the end, as a killed process leaves it */
    HSP_NOTE_PROVEN,
    HSP_NOTE_UNPROVEN /* a line without a sum, of an earlier version of this program */
};
struct hsp_note_line {
    enum hsp_note_kind as;
    const char *raw, *body; /* the line with and without its sum, both without the newline */
    size_t raw_len, len;
};
/* Returns the next line in *ret, or false if there is no more. */
bool hsp_notes_next(struct hsp_notes_walk *w, struct hsp_note_line *ret);

struct hsp_notes_damage {
    uint64_t n, first; /* damaged lines; the number of the first one, from 1 */
    uint64_t unproven; /* lines without sums, of an earlier version of this program */
};
/* Removes the sums from the notes of @job in @text, and leaves out damaged lines. Lines without
 * sums are kept. Half a line at the end is left out and counts as no damage, for a killed process
 * leaves it. Returns the new length. */
size_t hsp_metrics_check(uint32_t job, char *text, size_t n, struct hsp_notes_damage *ret);

#define HSP_NOTES_DAMAGE 320
/* Puts one line of each step in @text into @out, in order of steps: the line of the newest epoch
 * that counts, given the steps that PREPARE @p names as given up. Changes @text. @ret_lacking:
 * steps of the job without a line, "3 of 700 steps: 17, 30 to 31"; "" none. HSP_ENOMEM,
 * HSP_ELIMIT. */
enum hsp_status hsp_metrics_newest(char *text, const struct hsp_m_prepare *p, struct hsp_buf *out,
                                   char ret_lacking[HSP_NOTES_DAMAGE], struct hsp_err *err);
/* Adds lines of @old to such lines in @out: those that count, of steps that @out lacks or has of an
 * earlier epoch. @old: metrics.jsonl of an earlier end of the job, which went back since.
 * @ret_lacking is made again. After an error both are unchanged. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_metrics_join(const char *old, const struct hsp_m_prepare *p,
                                 struct hsp_buf *out, char ret_lacking[HSP_NOTES_DAMAGE],
                                 struct hsp_err *err);
/* Appends @n bytes of notes to @all. Where @all has no room, first all notes are removed but the
 * newest of each step that count by @p; then all->max grows to twice the length, up to @limit.
 * HSP_ELIMIT, HSP_ENOMEM: @all has lost at most the removed notes. */
enum hsp_status hsp_metrics_add(struct hsp_buf *all, const struct hsp_m_prepare *p, size_t limit,
                                const char *text, size_t n, struct hsp_err *err);
#endif
