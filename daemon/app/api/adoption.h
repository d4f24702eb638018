/* What is known of a job that is to be adopted: the newest papers so far (proto/wire/papers.h), and the
 * records made of them.
 *
 * Purity:    pure, but for the job table of the app.
 * Ownership: an adoption owns the papers and counts its records. The list of those whose agents are
 *            being asked has it, then the request that waits for the core's REPLY.
 */
#ifndef HSP_ADOPTION_H
#define HSP_ADOPTION_H
#include "daemon/app/plans/job_record.h"
#include "daemon/cluster/cluster.h"
#include "proto/wire/papers.h"

struct hsp_app;

struct hsp_adoption_plan { /* of the papers */
    uint64_t no;
    struct hsp_plan_rec *rec; /* counted; its devices are those of the lost store */
};

struct hsp_adoption {
    struct hsp_adoption *next;
    uint32_t conn;
    uint64_t request;
    char actor[96];
    uint32_t job;
    struct hsp_digest cluster; /* whose it is */
    bool force;
    uint32_t n_asked, n_left;
    uint32_t *asked; /* owned: connections, 0: has answered, or is gone */
    hsp_msec end_ms;
    char fault[HSP_TEXT_MAX]; /* of the last agent that had none */
    uint8_t *data;            /* owned: the newest papers, NULL none yet */
    uint32_t len;
    struct hsp_arena *arena;
    struct hsp_papers papers;
    struct hsp_job_rec *rec; /* counted */
    size_t n_plans;
    struct hsp_adoption_plan *plans; /* owned */
};

struct hsp_adoption *hsp_adoption_free(struct hsp_adoption *x); /* NULL allowed; returns NULL */
/* Takes @data, of one agent, if they are the newest so far. HSP_EDIGEST, HSP_EVERSION; HSP_ENOENT: of
 * another job; HSP_ENOMEM. */
enum hsp_status hsp_adoption_consider(struct hsp_adoption *x, const uint8_t *data, uint32_t len,
                                      struct hsp_err *err);
/* Makes the records. HSP_EPARSE: a row is missing, or none of this program; HSP_ENOMEM. */
enum hsp_status hsp_adoption_read(struct hsp_adoption *x, struct hsp_err *err);
/* The core has adopted it: the job and its plans are known from here on. Calls @row for each row of ours
 * that goes to the store with the core's. False: no memory. */
typedef bool hsp_adoption_row(void *ctx, const char *key, const struct hsp_buf *value);
bool hsp_adoption_take(struct hsp_app *a, struct hsp_adoption *x, hsp_adoption_row *row, void *ctx);

#endif
