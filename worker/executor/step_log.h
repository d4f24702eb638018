/* Notes the metrics of committed steps in a file of the device, one line per step. Every rank gets
 * all records of a vote, so each device that took part in a step can note the loss of the step. At
 * the end of a job rank 0 merges the notes of all ranks (step_gather.h).
 *
 * Purity: shell (a file per job and device in the state directory). */
#ifndef HSP_STEP_LOG_H
#define HSP_STEP_LOG_H
#include "worker/executor/epoch.h"

/* Appends the line of the step whose vote @v has passed; @sequence as in hsp_epoch_report_step.
 * Returns HSP_EIO or HSP_ENOSPC if the line cannot be written. */
enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err);

/* Appends the line of step @s, which rank 0 has sent to this replica holder. Returns errors as
 * hsp_metrics_note does. */
enum hsp_status hsp_metrics_note_said(const struct hsp_ex_epoch *e, const struct hsp_said_step *s,
                                      struct hsp_err *err);
/* Reads the line of a step, with or without its checksum. Returns false if @line has another
 * form. */
bool hsp_metrics_said(const char *line, size_t n, struct hsp_said_step *ret);
/* Appends complete lines with their checksums. Returns HSP_EIO or HSP_ENOSPC if they cannot be
 * written; then a part may have been appended. */
enum hsp_status hsp_notes_append(const struct hsp_ex_epoch *e, const char *text, size_t n,
                                 struct hsp_err *err);

/* A walk over the lines of a file of notes. */
struct hsp_notes_walk {
    uint32_t job;
    const char *at, *end;
};
enum hsp_note_kind {
    HSP_NOTE_DAMAGED,
    HSP_NOTE_TORN, /* incomplete last line, as a killed process leaves it */
    HSP_NOTE_PROVEN,
    HSP_NOTE_UNPROVEN /* a line without a checksum, of an earlier version of this program */
};
struct hsp_note_line {
    enum hsp_note_kind as;
    const char *raw, *body; /* the line with and without its checksum; no newline */
    size_t raw_len, len;
};
/* Returns the next line in *ret, or false if there is no more. */
bool hsp_notes_next(struct hsp_notes_walk *w, struct hsp_note_line *ret);

struct hsp_notes_damage {
    uint64_t n, first; /* number of damaged lines; line number of the first, from 1 */
    uint64_t unproven; /* lines without checksums, of an earlier version of this program */
};
/* Removes the checksums from the notes of @job in @text, and leaves out damaged lines. Lines
 * without checksums are kept. An incomplete last line is left out and does not count as damage,
 * because a killed process leaves such a line. Returns the new length. */
size_t hsp_metrics_check(uint32_t job, char *text, size_t n, struct hsp_notes_damage *ret);

#define HSP_NOTES_DAMAGE 320
/* Copies one line of each step in @text to @out, in order of steps: the line of the newest epoch,
 * leaving out lines of the steps that PREPARE @p names as given up. Changes @text. @ret_lacking:
 * the steps of the job without a line, "3 of 700 steps: 17, 30 to 31"; "" none. Returns HSP_ENOMEM
 * or HSP_ELIMIT. */
enum hsp_status hsp_metrics_newest(char *text, const struct hsp_m_prepare *p, struct hsp_buf *out,
                                   char ret_lacking[HSP_NOTES_DAMAGE], struct hsp_err *err);
/* Adds to the result @out of hsp_metrics_newest the lines of @old that PREPARE @p does not give up,
 * for steps that @out lacks or has from an earlier epoch. @old: the file metrics.jsonl that the job
 * wrote when it ended before; then the job went back to an earlier version. @ret_lacking is made
 * again. Returns HSP_ENOMEM or HSP_ELIMIT; then @out and @ret_lacking are unchanged. */
enum hsp_status hsp_metrics_join(const char *old, const struct hsp_m_prepare *p,
                                 struct hsp_buf *out, char ret_lacking[HSP_NOTES_DAMAGE],
                                 struct hsp_err *err);
/* Appends @n bytes of notes to @all. If @all has no room, first removes all notes except the newest
 * note of each step that @p does not give up; then all->max grows to twice the length, up to
 * @limit. Returns HSP_ELIMIT or HSP_ENOMEM; then @all has lost at most the removed notes. */
enum hsp_status hsp_metrics_add(struct hsp_buf *all, const struct hsp_m_prepare *p, size_t limit,
                                const char *text, size_t n, struct hsp_err *err);
#endif
