/* The happy path: every rank writes its shard into step-N.tmp and syncs it; one process commits: it
 * reads all headers, checks coverage, writes the manifest, syncs, renames the directory to step-N.
 *
 * Possible failure modes: no space or a dead rank (the .tmp directory is abandoned; readers never
 * look there); killed between the manifest and the rename (still .tmp); damage afterwards (the
 * manifest has a digest and the hashes of the shards' metadata, these the hashes of their
 * contents). */
#include "worker/state/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_manifest.h"
#include "worker/state/ckpt_shard.h"

#define MAX_STEPS 1048576

/* ---- commit ---- */

static enum hsp_status open_shards(const struct hsp_folder *step, const struct hsp_ckpt_info *info,
                                   struct hsp_ckpt_shard *s, struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    for (uint32_t i = 0; i < info->n_ranks; i++) {
        hsp_ckpt_shard_name(i, name);
        enum hsp_status st = hsp_ckpt_shard_open(step, name, &s[i], err);
        if (st == HSP_ENOENT) {
            return hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s is missing", step->path, name);
        }
        if (st == HSP_EVERSION) { /* the manifest is of ours, and written with it */
            return hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s is damaged", step->path, name);
        }
        if (st != HSP_OK) {
            return st;
        }
        if (s[i].rank != i || !hsp_ckpt_info_equal(&s[i].info, info)) {
            return hsp_err_set(err, HSP_EDIGEST, 0, "%s/%s belongs to another attempt", step->path,
                               name);
        }
    }
    return HSP_OK;
}

static void close_shards(struct hsp_ckpt_shard *s, uint32_t n)
{
    for (uint32_t i = 0; s != NULL && i < n; i++) {
        hsp_ckpt_shard_close(&s[i]);
    }
    free(s);
}

static enum hsp_status write_manifest(const struct hsp_folder *tmp,
                                      const struct hsp_ckpt_info *info,
                                      const struct hsp_data_cursor *data, const char *config,
                                      uint64_t *ret_content, struct hsp_err *err)
{
    const struct hsp_ckpt_entry **e = NULL;
    size_t n = 0;
    struct hsp_ckpt_shard *s = calloc(info->n_ranks, sizeof(*s));
    if (s == NULL) {
        return hsp_err_nomem(err, "%u shards", info->n_ranks);
    }
    enum hsp_status st = open_shards(tmp, info, s, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_coverage(s, info->n_ranks, &e, &n, err);
    }
    if (st == HSP_OK) {
        char *text = hsp_ckpt_manifest_text(info, s, data, config);
        st = text != NULL ? hsp_folder_write(tmp, HSP_CKPT_MANIFEST, text, strlen(text), err)
                          : hsp_err_nomem(err, "%s/%s", tmp->path, HSP_CKPT_MANIFEST);
        cJSON_free(text);
    }
    *ret_content = 0;
    for (uint32_t i = 0; i < info->n_ranks; i++) {
        *ret_content += s[i].content;
    }
    free(e);
    close_shards(s, info->n_ranks);
    return st;
}

static bool is_shard(const char *name, uint32_t n_ranks)
{
    char own[HSP_CKPT_NAME];
    unsigned number = 0;
    if (sscanf(name, "shard-%u-", &number) != 1 || number < 1 || number > n_ranks) {
        return false;
    }
    hsp_ckpt_shard_name(number - 1, own);
    return strcmp(own, name) == 0;
}

struct strangers {
    const struct hsp_folder *in;
    uint32_t n_ranks;
};

static bool remove_stranger(void *ctx, const char *name)
{
    const struct strangers *s = ctx;
    if (strcmp(name, HSP_CKPT_MANIFEST) != 0 && !is_shard(name, s->n_ranks)) {
        (void)unlinkat(s->in->fd, name, 0); /* not a folder; our readers do not mind what stays */
    }
    return true;
}

/* Takes away what an attempt of more ranks, or one that was killed, has left beside manifest and
 * shards: readers that do not know the manifest would take it as part of the step. */
static void remove_strangers(const struct hsp_folder *tmp, uint32_t n_ranks)
{
    struct strangers s = {tmp, n_ranks};
    (void)hsp_folder_each(tmp, remove_stranger, &s, NULL);
}

/* Gives @tmp the name @to; what had it is gone afterwards, and not before where the file system can
 * exchange names. */
static enum hsp_status take_name(const struct hsp_folder *job, const char *tmp, const char *to,
                                 struct hsp_digest cluster, struct hsp_err *err)
{
    if (faccessat(job->fd, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return hsp_folder_rename(job, tmp, to, err);
    }
    enum hsp_status st = hsp_ckpt_mine(job, to, cluster, err);
    if (st != HSP_OK) {
        return st;
    }
    if (renameat2(job->fd, tmp, job->fd, to, RENAME_EXCHANGE) == 0) {
        /* what stays has no name to be read by */
        (void)hsp_folder_remove(job, tmp, HSP_CKPT_MANIFEST, NULL);
        return hsp_folder_sync(job, err);
    }
    st = hsp_folder_remove(job, to, HSP_CKPT_MANIFEST, err);
    return st == HSP_OK ? hsp_folder_rename(job, tmp, to, err) : st;
}

enum hsp_status hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                const struct hsp_data_cursor *data, const char *config_json,
                                uint64_t *ret_content, struct hsp_err *err)
{
    uint64_t content = 0;
    char tmp[HSP_CKPT_NAME], to[HSP_CKPT_NAME];
    struct hsp_folder job = {.fd = -1}, step = {.fd = -1};
    if (info->n_ranks == 0 || info->n_ranks > HSP_CKPT_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "checkpoint of %u ranks", info->n_ranks);
    }
    hsp_ckpt_step_name(info->step, true, tmp);
    hsp_ckpt_step_name(info->step, false, to);
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st == HSP_OK) {
        st = hsp_folder_open_in(&job, tmp, false, &step, err);
    }
    st = st == HSP_ENOENT ? HSP_EDIGEST : st; /* no shard was written */
    if (st == HSP_OK) {
        st = write_manifest(&step, info, data, config_json, &content, err);
    }
    if (st == HSP_OK) {
        remove_strangers(&step, info->n_ranks);
        st = hsp_folder_sync(&step, err);
    }
    if (st == HSP_OK) {
        st = take_name(&job, tmp, to, info->whose.cluster, err);
    }
    hsp_folder_close(&step);
    hsp_folder_close(&job);
    if (st == HSP_OK && ret_content != NULL) {
        *ret_content = content;
    }
    return st;
}

/* Deletes a step's folder in that of its job, its manifest first: a half deleted one is not
 * complete. */
static enum hsp_status remove_step(const char *dir, uint64_t step, bool tmp, struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job;
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st != HSP_OK) {
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    hsp_ckpt_step_name(step, tmp, name);
    st = hsp_folder_remove(&job, name, HSP_CKPT_MANIFEST, err);
    hsp_folder_close(&job);
    return st;
}

enum hsp_status hsp_ckpt_abandon(const char *dir, uint64_t step, struct hsp_err *err)
{
    return remove_step(dir, step, true, err);
}

/* ---- directory ---- */

struct step_name {
    uint64_t step;
    bool tmp;
};

static bool parse_step(const char *file, struct step_name *ret)
{
    char digits[24];
    if (strncmp(file, "step-", 5) != 0) {
        return false;
    }
    size_t n = strspn(file + 5, "0123456789");
    const char *rest = file + 5 + n;
    if (n == 0 || n >= sizeof(digits) || (*rest != '\0' && strcmp(rest, ".tmp") != 0)) {
        return false;
    }
    memcpy(digits, file + 5, n);
    digits[n] = '\0';
    ret->tmp = *rest != '\0';
    const char *p = digits + strspn(digits, "0");
    return hsp_parse_u64(*p != '\0' ? p : "0", &ret->step);
}

static int newest_first(const void *a, const void *b)
{
    const struct step_name *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step ? -1 : 1) : x->tmp - y->tmp;
}

struct step_list {
    const char *dir;
    struct step_name *step;
    size_t n, cap;
    enum hsp_status st;
    struct hsp_err *err;
};

static bool take_step(void *ctx, const char *file)
{
    struct step_list *l = ctx;
    struct step_name s;
    if (!parse_step(file, &s)) {
        return true;
    }
    if (!hsp_grow(&l->step, &l->cap, l->n + 1, sizeof(*l->step), MAX_STEPS)) {
        l->st = hsp_grow_error(l->n + 1, MAX_STEPS, "checkpoints", l->err);
        (void)hsp_err_wrap(l->err, "%s", l->dir);
        return false;
    }
    l->step[l->n++] = s;
    return true;
}

static enum hsp_status list_steps(const char *dir, struct step_name **ret, size_t *ret_n,
                                  struct hsp_err *err)
{
    struct step_list l = {.dir = dir, .err = err};
    struct hsp_folder job;
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st;
    }
    if (st == HSP_OK) {
        st = hsp_folder_each(&job, take_step, &l, err);
        hsp_folder_close(&job);
        st = st == HSP_OK ? l.st : st;
        if (st != HSP_OK) {
            free(l.step);
            return st;
        }
    }
    if (l.n > 0) {
        qsort(l.step, l.n, sizeof(*l.step), newest_first);
    }
    *ret = l.step;
    *ret_n = l.n;
    return HSP_OK;
}

enum hsp_status hsp_ckpt_list(const char *dir, uint64_t **ret, size_t *ret_n, struct hsp_err *err)
{
    struct step_name *all;
    size_t n, k = 0;
    enum hsp_status st = list_steps(dir, &all, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    uint64_t *steps = calloc(n + 1, sizeof(*steps));
    if (steps == NULL) {
        free(all);
        return hsp_err_nomem(err, "%zu steps", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (!all[i].tmp) {
            steps[k++] = all[i].step;
        }
    }
    free(all);
    *ret = steps;
    *ret_n = k;
    return HSP_OK;
}

/* Deletes one of the list. What cannot be deleted keeps nothing else from it: *st gets the first
 * error. */
static void remove_listed(const char *dir, const struct step_name *s, enum hsp_status *st,
                          struct hsp_err *err)
{
    struct hsp_err why = {0};
    enum hsp_status mine = remove_step(dir, s->step, s->tmp, &why);
    if (mine != HSP_OK && *st == HSP_OK) {
        *st = hsp_err_set(err, mine, 0, "%s", why.msg);
    }
}

/* A step of the list may be deleted by @cluster. */
static bool is_mine(const char *dir, const struct step_name *s, struct hsp_digest cluster)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job;
    struct hsp_err why;
    if (s->tmp) {
        return true;
    }
    hsp_ckpt_step_name(s->step, false, name);
    bool is = hsp_folder_open(dir, false, &job, &why) == HSP_OK &&
              hsp_ckpt_mine(&job, name, cluster, &why) == HSP_OK;
    hsp_folder_close(&job);
    return is;
}

enum hsp_status hsp_ckpt_prune(const char *dir, uint64_t upto, size_t keep,
                               struct hsp_digest cluster, struct hsp_err *err)
{
    struct step_name *all;
    size_t n, seen = 0;
    enum hsp_status st = list_steps(dir, &all, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].step > upto || !is_mine(dir, &all[i], cluster)) {
            continue;
        }
        bool old = all[i].tmp ? seen > 0 : seen >= (keep > 0 ? keep : 1);
        seen += !all[i].tmp;
        if (old) {
            remove_listed(dir, &all[i], &st, err);
        }
    }
    free(all);
    return st;
}

enum hsp_status hsp_ckpt_sweep(const char *dir, uint64_t below, struct hsp_err *err)
{
    struct step_name *all;
    size_t n;
    enum hsp_status st = list_steps(dir, &all, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].tmp && all[i].step < below) {
            remove_listed(dir, &all[i], &st, err);
        }
    }
    free(all);
    return st;
}

/* ---- reading ---- */

/* Manifest against shards: nothing was exchanged since the commit. */
static enum hsp_status match_manifest(const struct hsp_ckpt *c, const cJSON *m, struct hsp_err *err)
{
    const cJSON *shards = cJSON_GetObjectItemCaseSensitive(m, "shards"), *o;
    uint32_t i = 0;
    cJSON_ArrayForEach(o, shards)
    {
        uint64_t meta, content;
        if (!hsp_json_u64(o, "metadata", &meta) || !hsp_json_u64(o, "content", &content) ||
            meta != c->shard[i].meta_hash || content != c->shard[i].content) {
            return hsp_err_set(err, HSP_EDIGEST, 0,
                               "step %" PRIu64 ": shard %u is not the one committed", c->info.step,
                               i + 1);
        }
        i++;
    }
    return HSP_OK;
}

static enum hsp_status index_tensors(struct hsp_ckpt *c, struct hsp_err *err)
{
    c->t = calloc(c->n_e + 1, sizeof(*c->t));
    c->first = calloc(c->n_e + 2, sizeof(*c->first));
    c->checked = calloc(c->n_e + 1, sizeof(*c->checked));
    if (c->t == NULL || c->first == NULL || c->checked == NULL) {
        return hsp_err_nomem(err, "%zu pieces", c->n_e);
    }
    for (size_t i = 0; i < c->n_e; i++) {
        const struct hsp_ckpt_tensor *t = &c->e[i]->t;
        if (c->n_t == 0 || t->tensor != c->t[c->n_t - 1].tensor ||
            t->kind != c->t[c->n_t - 1].kind) {
            c->first[c->n_t] = i;
            c->t[c->n_t++] = *t;
        }
    }
    c->first[c->n_t] = c->n_e;
    return HSP_OK;
}

enum hsp_status hsp_ckpt_open(const char *dir, uint64_t step, struct hsp_ckpt **ret,
                              struct hsp_err *err)
{
    char name[HSP_CKPT_NAME];
    struct hsp_folder job = {.fd = -1}, in = {.fd = -1};
    cJSON *m = NULL;
    struct hsp_ckpt *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    hsp_ckpt_step_name(step, false, name);
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st == HSP_OK) {
        st = hsp_folder_open_in(&job, name, false, &in, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_manifest_read(&in, c, &m, err);
    }
    if (st == HSP_OK && c->info.step != step) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s holds step %" PRIu64, in.path, c->info.step);
    }
    if (st == HSP_OK && (c->shard = calloc(c->info.n_ranks, sizeof(*c->shard))) == NULL) {
        st = hsp_err_nomem(err, "%u shards", c->info.n_ranks);
    }
    if (st == HSP_OK) {
        c->n_shards = c->info.n_ranks;
        st = open_shards(&in, &c->info, c->shard, err);
    }
    if (st == HSP_OK) {
        st = match_manifest(c, m, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_coverage(c->shard, c->n_shards, &c->e, &c->n_e, err);
    }
    if (st == HSP_OK) {
        st = index_tensors(c, err);
    }
    cJSON_Delete(m);
    hsp_folder_close(&in);
    hsp_folder_close(&job);
    if (st != HSP_OK) {
        hsp_ckpt_close(c);
        return st;
    }
    *ret = c;
    return HSP_OK;
}

struct hsp_ckpt *hsp_ckpt_close(struct hsp_ckpt *c)
{
    if (c != NULL) {
        close_shards(c->shard, c->n_shards);
        free(c->e);
        free(c->t);
        free(c->first);
        free(c->checked);
        free(c->config);
        free(c);
    }
    return NULL;
}

const struct hsp_ckpt_info *hsp_ckpt_about(const struct hsp_ckpt *c)
{
    return &c->info;
}

const struct hsp_data_cursor *hsp_ckpt_data(const struct hsp_ckpt *c)
{
    return &c->data;
}

uint64_t hsp_ckpt_content(const struct hsp_ckpt *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_shards; i++) {
        sum += c->shard[i].content;
    }
    return sum;
}

size_t hsp_ckpt_count(const struct hsp_ckpt *c)
{
    return c->n_t;
}

const struct hsp_ckpt_tensor *hsp_ckpt_tensor_at(const struct hsp_ckpt *c, size_t i)
{
    return i < c->n_t ? &c->t[i] : NULL;
}

const struct hsp_ckpt_tensor *hsp_ckpt_find(const struct hsp_ckpt *c, const char *name,
                                            uint8_t kind)
{
    for (size_t i = 0; i < c->n_t; i++) {
        if (c->t[i].kind == kind && strcmp(c->t[i].name, name) == 0) {
            return &c->t[i];
        }
    }
    return NULL;
}
