/* Encodes the papers of a job: the records from which a coordinator takes over a job without rows.
 *
 * hspmdd makes them at PREPARE: its rows of that one job, those of the nodes that these name (their
 * names alone), and whose they are. Each agent keeps them beside the segments (worker/state), and
 * gives them back to an hspmdd that asks. The digest is made and compared by hspmdd, so that damage
 * is found wherever it happened; agents compare it too. Each node of an epoch gets them, so the
 * rows are in the short form of lz.h: 2.4 MB of a thousand equal ranks are 90 kB.
 *
 * Example:   rows node/0, node/1, job/7, plan/7/3, app/job/7, app/plan/7/3 of epoch 9 of job mist.
 * Purity:    pure.
 * Format:    magic, u32 form, u64 bytes of the rest, digest of the rest (u64 hi, lo); then job u32,
 *            name, cluster, generation and epoch u64, and the rows: their u32 number, and of each
 *            key and value. Written is one row, "lz", whose value is the short form of the rows.
 *            Older programs wrote the rows as they are; agents of any version keep both. A text or
 *            value is a u32 length and bytes. All little endian.
 */
#ifndef HSP_PAPERS_H
#define HSP_PAPERS_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/wire/identity.h"
#include "proto/wire/msg.h"

#define HSP_PAPERS_MAX   HSP_MSG_PAPERS_MAX
#define HSP_PAPERS_PLAIN (48u << 20) /* rows: 20 layouts of 1,000 ranks */
#define HSP_PAPERS_ROWS  70000u      /* nodes of a job, and its layouts */
#define HSP_PAPERS_KEY   127u

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
    struct hsp_digest rows; /* of those that were read: the same in both forms */
};

/* The knowledge of an agent about papers. */
struct hsp_papers_head {
    uint32_t job;
    char name[HSP_NAME_MAX + 1];
    struct hsp_whose whose;
    uint64_t epoch;
};

/* Appends them to @out, which is empty. hsp_buf_status tells when they do not fit. */
void hsp_papers_write(const struct hsp_papers *p, struct hsp_buf *out);
/* Looks at all of @data, but for the rows: the digest says that they are as written.
 * HSP_EDIGEST: damaged, or cut; HSP_EVERSION: of a form that this program does not know. */
enum hsp_status hsp_papers_look(const void *data, size_t len, struct hsp_papers_head *ret,
                                struct hsp_err *err);
/* Texts and rows are in @arena, but for values of the older form, which are borrowed from @data.
 * Errors as above; HSP_ENOMEM. */
enum hsp_status hsp_papers_read(const void *data, size_t len, struct hsp_arena *arena,
                                struct hsp_papers *ret, struct hsp_err *err);

#endif
