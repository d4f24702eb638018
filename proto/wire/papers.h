/* The papers of a job: what a coordinator needs to take over a job that it has no rows of.
 *
 * hspmdd makes them at PREPARE: its rows of that one job, those of the nodes that these name (their
 * names alone), and whose they are. Each agent keeps them beside the segments (worker/state), and
 * gives them back to an hspmdd that asks. The digest is made and compared by hspmdd, so that damage
 * is found wherever it happened; agents compare it too.
 *
 * Example:   rows node/0, node/1, job/7, plan/7/3, app/job/7, app/plan/7/3 of epoch 9 of job mist.
 * Purity:    pure.
 * Format:    magic, u32 form, u64 bytes of the rest, digest of the rest (u64 hi, lo); then job u32,
 *            name, cluster, generation and epoch u64, u32 number of rows, and each row: key, value.
 *            A text or value is a u32 length and bytes. All little endian.
 */
#ifndef HSP_PAPERS_H
#define HSP_PAPERS_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/wire/identity.h"
#include "proto/wire/msg.h"

#define HSP_PAPERS_MAX  HSP_MSG_PAPERS_MAX
#define HSP_PAPERS_ROWS 70000u /* nodes of a job, and its layouts */
#define HSP_PAPERS_KEY  127u

struct hsp_papers_row {
    const char *key;
    const void *value;
    uint32_t len;
};

struct hsp_papers {
    uint32_t job;
    const char *name;
    struct hsp_whose whose;
    uint64_t epoch; /* whose PREPARE they were made for */
    uint32_t n;
    const struct hsp_papers_row *row;
};

/* Appends them to @out, which is empty. What does not fit there is seen by hsp_buf_status. */
void hsp_papers_write(const struct hsp_papers *p, struct hsp_buf *out);
/* Keys and names are copied into @arena, values borrowed from @data. HSP_EDIGEST: damaged, or cut;
 * HSP_EVERSION: of a form that this program does not know; HSP_ENOMEM. */
enum hsp_status hsp_papers_read(const void *data, size_t len, struct hsp_arena *arena,
                                struct hsp_papers *ret, struct hsp_err *err);

#endif
