/* Rank 0 requests the notes of one rank after the other, in pieces of complete lines. So the notes
 * of many ranks are never under way at the same time. A rank without notes sends an empty piece. */
#include "worker/executor/step_gather.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "worker/state/segment_name.h"

#define NOTES_MAX       ((size_t)1 << 30) /* ten million steps */
#define NOTES_ROOM      ((size_t)1 << 24) /* first size of the buffer for all ranks */
#define CHANNEL_METRICS 0x7ffffff1u
#define PIECE           ((size_t)1 << 20)

/* Logs that the job ends without the notes of @rank; other devices have noted the same steps. */
static void go_without(const struct hsp_ex_epoch *e, uint32_t rank, const struct hsp_err *why)
{
    hsp_log(e->env->log, HSP_LOG_WARN, "executor", "metrics.jsonl goes without the notes of %s: %s",
            e->pkg.peers[rank].name, why->msg);
}

struct notes {  /* notes of one device, without checksums */
    char *text; /* owned */
    uint64_t n; /* bytes */
    char damage[HSP_NOTES_DAMAGE];
};

/* Adds notes of rank @r to @all. Returns false if there is no room. */
static bool add(struct hsp_ex_epoch *e, uint32_t r, const char *text, size_t n, struct hsp_buf *all)
{
    struct hsp_err why = {0};
    bool added = hsp_metrics_add(all, e->p, 2 * NOTES_MAX, text, n, &why) == HSP_OK;
    if (!added) {
        go_without(e, r, &why);
    }
    return added;
}

static enum hsp_status get(struct hsp_ex_epoch *e, uint32_t r, void *to, size_t n,
                           struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    return comm->ops->recv(comm, r, CHANNEL_METRICS, to, n, err);
}

static enum hsp_status put(struct hsp_ex_epoch *e, uint32_t r, const void *from, size_t n,
                           struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    return comm->ops->send(comm, r, CHANNEL_METRICS, from, n, err);
}

/* Returns the number of bytes of the complete lines at the begin of @text that fit into a piece. */
static uint32_t piece_of(const char *text, uint64_t n)
{
    size_t len = n < PIECE ? (size_t)n : PIECE;
    const char *nl = memrchr(text, '\n', len);
    return (uint32_t)(nl != NULL ? (size_t)(nl + 1 - text) : len);
}

/* Sends a piece at each request of rank 0; the last piece is empty. */
static enum hsp_status send_pieces(struct hsp_ex_epoch *e, const struct notes *mine,
                                   struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint32_t len = 1;
    for (uint64_t at = 0; st == HSP_OK && len > 0; at += len) {
        uint8_t more = 0;
        st = get(e, 0, &more, sizeof more, err);
        len = more != 0 && at < mine->n ? piece_of(mine->text + at, mine->n - at) : 0;
        st = st == HSP_OK ? put(e, 0, &len, sizeof len, err) : st;
        st = st == HSP_OK && len > 0 ? put(e, 0, mine->text + at, len, err) : st;
    }
    return st;
}

/* Receives the pieces of rank @r. Returns errors of the link only. */
static enum hsp_status receive_pieces(struct hsp_ex_epoch *e, uint32_t r, struct hsp_buf *all,
                                      struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    char *piece = malloc(PIECE);
    uint32_t len = 1;
    uint8_t more = 1;
    if (piece == NULL) {
        return hsp_err_nomem(err, "the metrics of rank %u", r);
    }
    while (st == HSP_OK && len > 0) {
        st = put(e, r, &more, sizeof more, err);
        st = st == HSP_OK ? get(e, r, &len, sizeof len, err) : st;
        if (st == HSP_OK && len > PIECE) {
            st = hsp_err_set(err, HSP_EPROTO, 0, "rank %u sends %u bytes of metrics at once", r,
                             len);
        }
        st = st == HSP_OK && len > 0 ? get(e, r, piece, len, err) : st;
        if (st == HSP_OK && len > 0 && more != 0) {
            more = add(e, r, piece, len, all);
        }
    }
    free(piece);
    return st;
}

/* Receives the notes of rank @r if it runs an earlier version of this program, which sends them in
 * one message. */
static enum hsp_status receive_whole(struct hsp_ex_epoch *e, uint32_t r, struct hsp_buf *all,
                                     struct hsp_err *err)
{
    uint64_t n = 0;
    enum hsp_status st = get(e, r, &n, sizeof n, err);
    if (st != HSP_OK) {
        return st;
    }
    char *text = n <= NOTES_MAX ? malloc((size_t)n + 1) : NULL;
    if (text == NULL) {
        return hsp_err_nomem(err, "the metrics of rank %u", r);
    }
    st = get(e, r, text, (size_t)n, err);
    if (st == HSP_OK) {
        (void)add(e, r, text, (size_t)n, all);
    }
    free(text);
    return st;
}

static enum hsp_status send_whole(struct hsp_ex_epoch *e, const struct notes *mine,
                                  struct hsp_err *err)
{
    enum hsp_status st = put(e, 0, &mine->n, sizeof mine->n, err);
    return st == HSP_OK ? put(e, 0, mine->text, (size_t)mine->n, err) : st;
}

/* Sends the notes to rank 0: in pieces if share_notes is set, which means that all peers know
 * pieces. */
static enum hsp_status send(struct hsp_ex_epoch *e, const struct notes *mine, struct hsp_err *err)
{
    enum hsp_status st = e->p->share_notes ? send_pieces(e, mine, err) : send_whole(e, mine, err);
    return st == HSP_OK ? put(e, 0, mine->damage, sizeof mine->damage, err) : st;
}

/* Reads the notes of this device. *ret has no notes if the file cannot be read. */
static void read_own(struct hsp_ex_epoch *e, struct notes *ret)
{
    char path[PATH_MAX], more[48] = "is";
    uint8_t *text = NULL;
    size_t len = 0;
    struct hsp_err why = {0};
    struct hsp_notes_damage d;
    hsp_segname_notes(e->env->state_dir, e->p->job, e->env->device, path);
    enum hsp_status st = hsp_file_read_own(path, NOTES_MAX, &text, &len, &why);
    if (st != HSP_OK && st != HSP_ENOENT) { /* this device joined late: no file */
        go_without(e, e->p->rank, &why);
    }
    ret->text = (char *)text;
    ret->n = hsp_metrics_check(e->p->job, ret->text, len, &d);
    if (d.unproven > 0) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "metrics: %" PRIu64
                " lines of %s are of an earlier version, without sums: they are "
                "taken as they are",
                d.unproven, path);
    }
    if (d.n > 1) {
        (void)snprintf(more, sizeof more, "and %" PRIu64 " more are", d.n - 1);
    }
    if (d.n > 0) {
        hsp_str_printf(ret->damage, sizeof ret->damage,
                       "%s: line %" PRIu64 " of %s %s damaged, and left out",
                       e->pkg.peers[e->p->rank].name, d.first, path, more); /* cut on purpose */
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "metrics: %s", ret->damage);
    }
}

/* Called at rank 0: gathers the notes of all ranks in @all, and describes the first damage in
 * @damage. */
static enum hsp_status gather(struct hsp_ex_epoch *e, const struct notes *mine, struct hsp_buf *all,
                              char damage[HSP_NOTES_DAMAGE], struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    (void)add(e, 0, mine->text, (size_t)mine->n, all);
    memcpy(damage, mine->damage, HSP_NOTES_DAMAGE);
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        char theirs[HSP_NOTES_DAMAGE];
        st = e->p->share_notes ? receive_pieces(e, r, all, err) : receive_whole(e, r, all, err);
        st = st == HSP_OK ? get(e, r, theirs, sizeof theirs, err) : st;
        if (st == HSP_OK && damage[0] == '\0') {
            memcpy(damage, theirs, sizeof theirs);
            damage[sizeof theirs - 1] = '\0'; /* as sent */
        }
    }
    return st;
}

enum hsp_status hsp_metrics_merge(struct hsp_ex_epoch *e, struct hsp_buf *out,
                                  struct hsp_notes_faults *ret, struct hsp_err *err)
{
    struct notes mine = {0};
    struct hsp_buf all;
    *ret = (struct hsp_notes_faults){{0}, {0}};
    read_own(e, &mine);
    if (e->p->rank != 0) {
        enum hsp_status st = send(e, &mine, err);
        free(mine.text);
        return st;
    }
    hsp_buf_init(&all, NOTES_ROOM);
    enum hsp_status st = gather(e, &mine, &all, ret->damage, err);
    free(mine.text);
    if (st == HSP_OK) {
        st =
            hsp_metrics_newest((char *)(uintptr_t)hsp_buf_cstr(&all), e->p, out, ret->lacking, err);
    }
    hsp_buf_fini(&all);
    return st;
}
