#include "worker/state/ckpt_verify.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/host/open_files_limit.h"
#include "proto/layout/box.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_read.h"

#define FILES (HSP_CKPT_MAX_RANKS + 64) /* the shards of a step are open together */

/* The tensors' bytes as they are in memory; headers are not counted. */
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

/* What one step is found to be. */
struct verdict {
    uint64_t step;
    enum hsp_status status;
    size_t tensors;
    uint64_t bytes;
    uint32_t files;
    struct hsp_data_cursor data;
    struct hsp_err why;
};

static void check_step(const char *dir, uint64_t step, struct verdict *ret)
{
    struct hsp_ckpt *c = NULL;
    *ret = (struct verdict){.step = step};
    ret->status = hsp_ckpt_open(dir, step, &c, &ret->why);
    if (ret->status == HSP_OK) {
        ret->tensors = hsp_ckpt_count(c);
        ret->bytes = content_bytes(c);
        ret->files = hsp_ckpt_about(c)->n_ranks;
        ret->data = *hsp_ckpt_data(c);
        ret->status = hsp_ckpt_verify(c, &ret->why);
    }
    (void)hsp_ckpt_close(c);
}

static void put_line(const struct verdict *v, FILE *out)
{
    if (v->status == HSP_OK) {
        (void)fprintf(out,
                      "step %" PRIu64 ": good, %zu tensors, %" PRIu64
                      " bytes, %u files; data: pass %" PRIu64 ", sample %" PRIu64 " of %" PRIu64
                      "\n",
                      v->step, v->tensors, v->bytes, v->files, hsp_data_cursor_pass(&v->data) + 1,
                      hsp_data_cursor_sample(&v->data), v->data.pass_samples);
    } else {
        bool damaged = v->status == HSP_EDIGEST || v->status == HSP_ENOENT;
        (void)fprintf(out, "step %" PRIu64 ": %s: %s\n", v->step,
                      damaged ? "damaged" : "cannot be read", v->why.msg);
    }
}

/* False without memory, as the next one. */
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
    if (!cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return false;
    }
    return cJSON_AddNumberToObject(o, "step", (double)v->step) != NULL &&
           cJSON_AddBoolToObject(o, "good", v->status == HSP_OK) != NULL &&
           cJSON_AddNumberToObject(o, "tensors", (double)v->tensors) != NULL &&
           cJSON_AddNumberToObject(o, "bytes", (double)v->bytes) != NULL &&
           cJSON_AddNumberToObject(o, "files", v->files) != NULL &&
           cJSON_AddStringToObject(o, "reason", v->status == HSP_OK ? "" : v->why.msg) != NULL &&
           (v->data.pass_samples == 0 || put_data(&v->data, o)); /* 0: no manifest was read */
}

/* Checks all steps, with a line each on @out, or an item in @list where there is one. */
static enum hsp_status check_steps(const char *dir, const uint64_t *step, size_t n, cJSON *list,
                                   FILE *out, struct hsp_err *err)
{
    size_t bad = 0;
    enum hsp_status worst = HSP_OK;
    for (size_t i = 0; i < n; i++) {
        struct verdict v;
        check_step(dir, step[i], &v);
        if (v.status == HSP_ENOMEM || (list != NULL && !put_json(&v, list))) {
            return hsp_err_nomem(err, "step %" PRIu64 " in %s", step[i], dir);
        }
        bad += v.status != HSP_OK;
        worst = v.status == HSP_OK || worst == HSP_EDIGEST ? worst : v.status;
        if (list == NULL) {
            put_line(&v, out);
        }
    }
    return bad == 0
               ? HSP_OK
               : hsp_err_set(err, worst, 0, "%s: %zu of %zu checkpoints are not good", dir, bad, n);
}

/* The same, with one object on @out. */
static enum hsp_status check_json(const char *dir, const uint64_t *step, size_t n, FILE *out,
                                  struct hsp_err *err)
{
    cJSON *doc = cJSON_CreateObject();
    cJSON *list = cJSON_AddStringToObject(doc, "folder", dir) != NULL
                      ? cJSON_AddArrayToObject(doc, "checkpoints")
                      : NULL;
    enum hsp_status st = list != NULL ? check_steps(dir, step, n, list, out, err) : HSP_ENOMEM;
    char *text = st != HSP_ENOMEM ? cJSON_PrintUnformatted(doc) : NULL;
    if (text != NULL) {
        (void)fprintf(out, "%s\n", text);
    } else {
        st = hsp_err_nomem(err, "the checkpoints in %s", dir);
    }
    cJSON_free(text);
    cJSON_Delete(doc);
    return st;
}

enum hsp_status hsp_ckpt_check(const char *dir, bool json, FILE *out, struct hsp_err *err)
{
    uint64_t *step = NULL;
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
    st = json ? check_json(dir, step, n, out, err) : check_steps(dir, step, n, NULL, out, err);
    free(step);
    if (fflush(out) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "the answer could not be written");
    }
    return st != HSP_OK || n > 0
               ? st
               : hsp_err_set(err, HSP_ENOENT, 0, "%s: no complete checkpoint", dir);
}
