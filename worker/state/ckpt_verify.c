/* Verifies the checkpoints of a folder. The happy path: all steps are opened and read whole, newest
 * first.
 *
 * Possible failure modes: a damaged step (its line says so, the others are still read); more shards
 * than a shell allows files (the limit is raised); want of memory (no verdict at all). */
#include "worker/state/ckpt_verify.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/base/str.h"
#include "proto/host/open_files_limit.h"
#include "proto/layout/box.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_steps.h"

#define FILES (HSP_CKPT_MAX_RANKS + 64) /* the shards of a step are open together */

/* Bytes of the tensors in memory; headers are not counted. */
static uint64_t content_bytes(const struct hsp_ckpt *c)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < hsp_ckpt_count(c); i++) {
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor_at(c, i);
        struct hsp_box whole = hsp_box_whole(t->rank, t->full);
        bytes += (uint64_t)hsp_box_count(&whole) * hsp_dtype_size(t->dtype);
    }
    return bytes;
}

/* The findings about one step. */
struct verdict {
    struct hsp_ckpt_place at;
    enum hsp_status status;
    uint32_t job; /* 0: not known */
    bool other;   /* of another job than the job that is asked for */
    struct hsp_digest cluster;
    size_t tensors;
    uint64_t bytes;
    uint32_t files;
    struct hsp_data_cursor data;
    struct hsp_err why;
};

static void check_step(const char *dir, const struct hsp_ckpt_place *at, uint32_t job,
                       struct verdict *ret)
{
    struct hsp_ckpt *c = NULL;
    *ret = (struct verdict){.at = *at, .job = at->aside};
    ret->status = hsp_ckpt_open_at(dir, at, &c, &ret->why);
    if (ret->status == HSP_OK) {
        ret->tensors = hsp_ckpt_count(c);
        ret->bytes = content_bytes(c);
        ret->files = hsp_ckpt_about(c)->n_ranks;
        ret->job = hsp_ckpt_about(c)->job_id;
        ret->cluster = hsp_ckpt_about(c)->whose.cluster;
        ret->data = *hsp_ckpt_data(c);
        ret->status = hsp_ckpt_verify(c, &ret->why);
    }
    ret->other = job != 0 && ret->job != 0 && ret->job != job;
    (void)hsp_ckpt_close(c);
}

static void put_line(const struct verdict *v, FILE *out)
{
    char whose[64] = "";
    if (v->other) {
        (void)snprintf(whose, sizeof whose, "of job %u, which had this name, ", v->job);
    }
    if (v->status == HSP_OK) {
        (void)fprintf(out,
                      "step %" PRIu64 ": %sgood, %zu tensors, %" PRIu64
                      " bytes, %u file%s; data: pass %" PRIu64 ", sample %" PRIu64 " of %" PRIu64
                      "\n",
                      v->at.step, whose, v->tensors, v->bytes, v->files, hsp_s(v->files),
                      hsp_data_cursor_pass(&v->data) + 1, hsp_data_cursor_sample(&v->data),
                      v->data.pass_samples);
    } else {
        bool damaged = v->status == HSP_EDIGEST || v->status == HSP_ENOENT;
        (void)fprintf(out, "step %" PRIu64 ": %s%s: %s\n", v->at.step, whose,
                      damaged ? "damaged" : "cannot be read", v->why.msg);
    }
}

/* Adds the place in the data. False without memory, as in the next function. */
static bool put_data(const struct hsp_data_cursor *c, cJSON *o)
{
    char digest[HSP_DIGEST_HEX];
    cJSON *x = cJSON_AddObjectToObject(o, "data");
    hsp_digest_hex(c->digest, digest);
    return cJSON_AddNumberToObject(x, "bytes", (double)c->bytes) != NULL &&
           cJSON_AddStringToObject(x, "digest", digest) != NULL &&
           cJSON_AddNumberToObject(x, "pass", (double)hsp_data_cursor_pass(c)) != NULL &&
           cJSON_AddNumberToObject(x, "sample", (double)hsp_data_cursor_sample(c)) != NULL &&
           cJSON_AddNumberToObject(x, "pass_samples", (double)c->pass_samples) != NULL &&
           cJSON_AddNumberToObject(x, "tokens_read", (double)hsp_data_cursor_tokens(c)) != NULL;
}

static bool put_json(const struct verdict *v, cJSON *list)
{
    cJSON *o = cJSON_CreateObject();
    char hex[HSP_DIGEST_HEX];
    hsp_digest_hex(v->cluster, hex);
    if (!cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return false;
    }
    return cJSON_AddNumberToObject(o, "step", (double)v->at.step) != NULL &&
           cJSON_AddBoolToObject(o, "good", v->status == HSP_OK) != NULL &&
           cJSON_AddNumberToObject(o, "job_id", v->job) != NULL &&
           cJSON_AddStringToObject(o, "cluster", hex) != NULL &&
           cJSON_AddNumberToObject(o, "tensors", (double)v->tensors) != NULL &&
           cJSON_AddNumberToObject(o, "bytes", (double)v->bytes) != NULL &&
           cJSON_AddNumberToObject(o, "files", v->files) != NULL &&
           cJSON_AddStringToObject(o, "reason", v->status == HSP_OK ? "" : v->why.msg) != NULL &&
           (v->data.pass_samples == 0 || put_data(&v->data, o)); /* 0: no manifest was read */
}

/* The steps in a folder, and the job that is asked for (0: all jobs). */
struct folder {
    const char *dir;
    uint32_t job;
    const struct hsp_ckpt_place *step;
    size_t n;
};

/* Checks all steps, with a line each on @out, or an item in @list where there is one. */
static enum hsp_status check_steps(const struct folder *f, cJSON *list, FILE *out,
                                   struct hsp_err *err)
{
    size_t bad = 0, counted = 0;
    enum hsp_status worst = HSP_OK;
    for (size_t i = 0; i < f->n; i++) {
        struct verdict v;
        check_step(f->dir, &f->step[i], f->job, &v);
        if (v.status == HSP_ENOMEM || (list != NULL && !put_json(&v, list))) {
            return hsp_err_nomem(err, "step %" PRIu64 " in %s", f->step[i].step, f->dir);
        }
        if (list == NULL) {
            put_line(&v, out);
        }
        counted += !v.other;
        if (!v.other && v.status != HSP_OK) {
            bad++;
            worst = worst == HSP_EDIGEST ? worst : v.status;
        }
    }
    if (counted == 0) {
        return f->job == 0 ? hsp_err_set(err, HSP_ENOENT, 0, "%s: no complete checkpoint", f->dir)
                           : hsp_err_set(err, HSP_ENOENT, 0, "%s: no complete checkpoint of job %u",
                                         f->dir, f->job);
    }
    return bad == 0 ? HSP_OK
                    : hsp_err_set(err, worst, 0, "%s: %zu of %zu checkpoints are not good", f->dir,
                                  bad, counted);
}

/* The same, with one object on @out. */
static enum hsp_status check_json(const struct folder *f, FILE *out, struct hsp_err *err)
{
    cJSON *doc = cJSON_CreateObject();
    cJSON *list = cJSON_AddStringToObject(doc, "folder", f->dir) != NULL
                      ? cJSON_AddArrayToObject(doc, "checkpoints")
                      : NULL;
    enum hsp_status st = list != NULL ? check_steps(f, list, out, err) : HSP_ENOMEM;
    char *text = st != HSP_ENOMEM ? cJSON_PrintUnformatted(doc) : NULL;
    if (text != NULL) {
        (void)fprintf(out, "%s\n", text);
    } else {
        st = hsp_err_nomem(err, "the checkpoints in %s", f->dir);
    }
    cJSON_free(text);
    cJSON_Delete(doc);
    return st;
}

enum hsp_status hsp_ckpt_check(const char *dir, uint32_t job, bool json, FILE *out,
                               struct hsp_err *err)
{
    struct hsp_ckpt_place *step = NULL;
    size_t n = 0;
    struct stat s;
    (void)hsp_nofile_raise(FILES); /* with fewer, a step that needs them says so */
    if (stat(dir, &s) != 0) {
        return hsp_err_set(err, errno == ENOENT ? HSP_ENOENT : HSP_EIO, errno, "%s", dir);
    }
    enum hsp_status st = hsp_ckpt_list(dir, &step, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    const struct folder f = {dir, job, step, n};
    st = json ? check_json(&f, out, err) : check_steps(&f, NULL, out, err);
    free(step);
    if (fflush(out) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "the answer could not be written");
    }
    return st;
}
