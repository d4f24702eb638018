/* Collects the facts about a job that is to be adopted: the answers of its agents, the newest
 * papers so far (proto/wire/papers.h), and the records made of them.
 *
 * Anybody who holds the worker key can say that it keeps the job, and tell papers of its own. So
 * nothing is taken that only one of several agents says, or that they do not agree on, before an
 * administrator names the one to believe. Example: a and b tell epoch 9 of generation 0, and evil
 * epoch 9 of generation 1: refused, with a list of the three; `job adopt JOB --from a` takes those
 * of a.
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

/* An agent that keeps the job, and its answer. */
struct hsp_adoption_holder {
    uint32_t agent;                /* its connection, */
    uint32_t conn;                 /* and 0 when it has answered, or is gone */
    char name[HSP_NAME_MAX + 100]; /* "a (10.0.0.7:4410)" */
    bool told;                     /* papers of the job that can be read, as follows */
    uint64_t generation, epoch;
    struct hsp_digest papers, job_file;
};

struct hsp_adoption {
    struct hsp_adoption *next;
    uint32_t conn;
    uint64_t request;
    char actor[96];
    uint32_t job;
    struct hsp_digest cluster; /* whose it is */
    char
        from[HSP_NAME_MAX + 1]; /* the administrator believes this node, or address; "": not said */
    bool force;
    uint32_t n_asked, n_left;
    struct hsp_adoption_holder *holder; /* owned */
    uint32_t n_taken;                   /* of them, the first: the papers are theirs */
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
/* Takes @data, of holder @h of @x, if they are the newest so far. HSP_EDIGEST, HSP_EVERSION;
 * HSP_ENOENT: of another job; HSP_ENOMEM. */
enum hsp_status hsp_adoption_consider(struct hsp_adoption *x, struct hsp_adoption_holder *h,
                                      const uint8_t *data, uint32_t len, struct hsp_err *err);
/* One has told papers, and no answer is outstanding: puts the holders in order, the newest first,
 * and appends to @out the names with the newest papers: n_taken of them. HSP_ESTATE: an
 * administrator has to name one; then @out has the reason and each holder's papers. */
enum hsp_status hsp_adoption_judge(struct hsp_adoption *x, struct hsp_buf *out);
/* Connections of the n_taken, for the core; the caller's to free. NULL: no memory. */
uint32_t *hsp_adoption_agents(const struct hsp_adoption *x);
/* Makes the records, and finds all errors that could keep the shell from taking the job that the
 * core @c has adopted. HSP_EPARSE: a row is missing, or none of this program, or the rows of the
 * shell and of the core contradict each other; HSP_EDIGEST, HSP_EVERSION: the core's are not those
 * of one job; HSP_ENOMEM. */
enum hsp_status hsp_adoption_read(struct hsp_adoption *x, const struct hsp_cluster *c,
                                  struct hsp_err *err);
/* The core has adopted it: the job and its plans are known from here on. Calls @row for each row of
 * ours that goes to the store with the core's. False: no memory. */
typedef bool hsp_adoption_row(void *ctx, const char *key, const struct hsp_buf *value);
bool hsp_adoption_take(struct hsp_app *a, struct hsp_adoption *x, hsp_adoption_row *row, void *ctx);

#endif
