/* The metrics of committed steps as a device knows them: every rank learns every vote, so any
 * device that saw a step can tell its loss. At the end of a job rank 0 merges the notes of all
 * ranks (step_gather.h).
 *
 * Purity: shell (a file per job and device in the state directory). */
#ifndef HSP_STEP_LOG_H
#define HSP_STEP_LOG_H
#include "worker/executor/epoch.h"

/* Appends the line of a step after its vote; @sequence as in hsp_epoch_report_step. HSP_EIO,
 * HSP_ENOSPC. */
enum hsp_status hsp_metrics_note(const struct hsp_ex_epoch *e, const struct hsp_vote *v,
                                 double seconds, uint32_t sequence, struct hsp_err *err);

/* The same of a step as rank 0 has told it to a replica holder. */
enum hsp_status hsp_metrics_note_said(const struct hsp_ex_epoch *e, const struct hsp_said_step *s,
                                      struct hsp_err *err);
/* Reads such a line, with or without its sum. False: it is none. */
bool hsp_metrics_said(const char *line, size_t n, struct hsp_said_step *ret);
/* Appends whole lines with their sums. HSP_EIO, HSP_ENOSPC: a part may be there. */
enum hsp_status hsp_notes_append(const struct hsp_ex_epoch *e, const char *text, size_t n,
                                 struct hsp_err *err);

/* One line after the other of a file of notes. */
struct hsp_notes_walk {
    uint32_t job;
    const char *at, *end;
};
enum hsp_note_kind {
    HSP_NOTE_DAMAGED,
    HSP_NOTE_TORN, /* half a line at the end, as a process that was killed leaves it */
    HSP_NOTE_PROVEN,
    HSP_NOTE_UNPROVEN /* of an earlier version of this program, without a sum */
};
struct hsp_note_line {
    enum hsp_note_kind as;
    const char *raw, *body; /* with and without its sum; neither has the end of the line */
    size_t raw_len, len;
};
bool hsp_notes_next(struct hsp_notes_walk *w, struct hsp_note_line *ret); /* false: no more */

struct hsp_notes_damage {
    uint64_t n, first; /* lines; the number of the first, from 1 */
    uint64_t unproven; /* lines without sums, of an earlier version of this program */
};
/* Takes the sums off the notes of @job in @text, and leaves out lines that are not what was
 * written; unproven ones are kept; half a line at the end is what a process that was killed has
 * left, and no damage. Returns the new length. */
size_t hsp_metrics_check(uint32_t job, char *text, size_t n, struct hsp_notes_damage *ret);

#define HSP_NOTES_DAMAGE 320
/* Of each step in @text (changed) the line of the newest epoch that counts, as PREPARE @p says what
 * was given up, in order of steps, into @out. @ret_lacking: steps of the job that no line is of, "3
 * of 700 steps: 17, 30 to 31"; "" none. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_metrics_newest(char *text, const struct hsp_m_prepare *p, struct hsp_buf *out,
                                   char ret_lacking[HSP_NOTES_DAMAGE], struct hsp_err *err);
/* Puts into @out, lines of such a kind, those of the text @old that it has no step of, or an earlier
 * epoch's, and that count. @old: metrics.jsonl as the job has ended before; it went back since.
 * @ret_lacking: anew. On an error both are as they were. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_metrics_join(const char *old, const struct hsp_m_prepare *p,
                                 struct hsp_buf *out, char ret_lacking[HSP_NOTES_DAMAGE],
                                 struct hsp_err *err);
/* Puts @n bytes of notes behind those of @all. Where there is no room, all but the newest of each
 * step that count by @p go first; then all->max grows to twice what there is, up to @limit.
 * HSP_ELIMIT, HSP_ENOMEM: @all has no less than before but for those. */
enum hsp_status hsp_metrics_add(struct hsp_buf *all, const struct hsp_m_prepare *p, size_t limit,
                                const char *text, size_t n, struct hsp_err *err);
#endif
