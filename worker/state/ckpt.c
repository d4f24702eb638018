/* The happy path: every rank writes its shard into step-N.tmp and syncs it; one process commits: it
 * reads all headers, checks coverage, writes the manifest, syncs, renames the directory to step-N.
 *
 * Possible failure modes: no space or a dead rank (the .tmp directory is abandoned; readers never
 * look there); killed between the manifest and the rename (still .tmp); damage afterwards (the
 * manifest has a digest and the hashes of the shards' metadata, these the hashes of their
 * contents). */
#include "worker/state/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_manifest.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/io_error.h"

#define MAX_STEPS 1048576

/* ---- commit ---- */

static enum hsp_status open_shards(const char *step_dir, const struct hsp_ckpt_info *info,
                                   struct hsp_ckpt_shard *s, struct hsp_err *err)
{
    char path[HSP_CKPT_PATH];
    for (uint32_t i = 0; i < info->n_ranks; i++) {
        enum hsp_status st = hsp_ckpt_shard_path(step_dir, i, path, err);
        if (st == HSP_OK) {
            st = hsp_ckpt_shard_open(path, &s[i], err);
        }
        if (st == HSP_ENOENT) {
            return hsp_err_set(err, HSP_EDIGEST, 0, "%s is missing", path);
        }
        if (st != HSP_OK) {
            return st;
        }
        if (s[i].rank != i || !hsp_ckpt_info_equal(&s[i].info, info)) {
            return hsp_err_set(err, HSP_EDIGEST, 0, "%s belongs to another attempt", path);
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

static enum hsp_status write_manifest(const char *tmp, const struct hsp_ckpt_info *info,
                                      const struct hsp_data_cursor *data, const char *config,
                                      uint64_t *ret_content, struct hsp_err *err)
{
    char path[HSP_CKPT_PATH];
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
        st = hsp_ckpt_join(tmp, HSP_CKPT_MANIFEST, path, err);
    }
    if (st == HSP_OK) {
        char *text = hsp_ckpt_manifest_text(info, s, data, config);
        st = text != NULL ? hsp_file_write(path, text, strlen(text), 0644, err)
                          : hsp_err_nomem(err, "%s", path);
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
    char path[HSP_CKPT_PATH];
    unsigned number = 0;
    return sscanf(name, "shard-%u-", &number) == 1 && number >= 1 && number <= n_ranks &&
           hsp_ckpt_shard_path(".", number - 1, path, NULL) == HSP_OK &&
           strcmp(path + strlen("./"), name) == 0;
}

/* Takes away what an attempt of more ranks, or one that was killed, has left beside manifest and
 * shards:
 * readers that do not know the manifest would take it as part of the step. */
static void remove_strangers(const char *tmp, uint32_t n_ranks)
{
    char path[HSP_CKPT_PATH];
    struct dirent *e;
    DIR *d = opendir(tmp);
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, HSP_CKPT_MANIFEST) != 0 && !is_shard(e->d_name, n_ranks) &&
            hsp_ckpt_join(tmp, e->d_name, path, NULL) == HSP_OK) {
            (void)unlink(path); /* not a folder; our readers do not mind what stays */
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
}

/* Gives @tmp the name @to; what had it is gone afterwards, and not before where the file system can
 * exchange names. */
static enum hsp_status take_name(const char *tmp, const char *to, struct hsp_err *err)
{
    if (access(to, F_OK) != 0) {
        return rename(tmp, to) == 0 ? HSP_OK : hsp_state_io_error(err, "cannot rename to", to);
    }
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
        (void)hsp_ckpt_remove_dir(tmp, NULL); /* what stays has no name to be read by */
        return HSP_OK;
    }
    enum hsp_status st = hsp_ckpt_remove_dir(to, err);
    if (st == HSP_OK && rename(tmp, to) != 0) {
        st = hsp_state_io_error(err, "cannot rename to", to);
    }
    return st;
}

enum hsp_status hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                const struct hsp_data_cursor *data, const char *config_json,
                                uint64_t *ret_content, struct hsp_err *err)
{
    uint64_t content = 0;
    char tmp[HSP_CKPT_PATH], to[HSP_CKPT_PATH];
    if (info->n_ranks == 0 || info->n_ranks > HSP_CKPT_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "checkpoint of %u ranks", info->n_ranks);
    }
    enum hsp_status st = hsp_ckpt_step_dir(dir, info->step, true, tmp, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_step_dir(dir, info->step, false, to, err);
    }
    if (st == HSP_OK) {
        st = write_manifest(tmp, info, data, config_json, &content, err);
    }
    if (st == HSP_OK) {
        remove_strangers(tmp, info->n_ranks);
        st = hsp_ckpt_sync_dir(tmp, err);
    }
    if (st == HSP_OK) {
        st = take_name(tmp, to, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_sync_dir(dir, err);
    }
    if (st == HSP_OK && ret_content != NULL) {
        *ret_content = content;
    }
    return st;
}

enum hsp_status hsp_ckpt_abandon(const char *dir, uint64_t step, struct hsp_err *err)
{
    char tmp[HSP_CKPT_PATH];
    enum hsp_status st = hsp_ckpt_step_dir(dir, step, true, tmp, err);
    return st == HSP_OK ? hsp_ckpt_remove_dir(tmp, err) : st;
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

static enum hsp_status list_steps(const char *dir, struct step_name **ret, size_t *ret_n,
                                  struct hsp_err *err)
{
    struct step_name *list = NULL, s;
    size_t n = 0, cap = 0;
    struct dirent *e;
    enum hsp_status st = HSP_OK;
    DIR *d = opendir(dir);
    if (d == NULL && errno != ENOENT) {
        return hsp_state_io_error(err, "cannot open", dir);
    }
    while (d != NULL && st == HSP_OK && (e = readdir(d)) != NULL) {
        if (!parse_step(e->d_name, &s)) {
            continue;
        }
        if (!hsp_grow(&list, &cap, n + 1, sizeof(*list), MAX_STEPS)) {
            st = hsp_grow_error(n + 1, MAX_STEPS, "checkpoints", err);
            (void)hsp_err_wrap(err, "%s", dir);
        } else {
            list[n++] = s;
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
    if (st != HSP_OK) {
        free(list);
        return st;
    }
    if (n > 0) {
        qsort(list, n, sizeof(*list), newest_first);
    }
    *ret = list;
    *ret_n = n;
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
static void remove_step(const char *dir, const struct step_name *s, enum hsp_status *st,
                        struct hsp_err *err)
{
    char path[HSP_CKPT_PATH];
    struct hsp_err why = {0};
    enum hsp_status mine = hsp_ckpt_step_dir(dir, s->step, s->tmp, path, &why);
    mine = mine == HSP_OK ? hsp_ckpt_remove_dir(path, &why) : mine;
    if (mine != HSP_OK && *st == HSP_OK) {
        *st = hsp_err_set(err, mine, 0, "%s", why.msg);
    }
}

enum hsp_status hsp_ckpt_prune(const char *dir, uint64_t upto, size_t keep, struct hsp_err *err)
{
    struct step_name *all;
    size_t n, seen = 0;
    enum hsp_status st = list_steps(dir, &all, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].step > upto) {
            continue;
        }
        bool old = all[i].tmp ? seen > 0 : seen >= (keep > 0 ? keep : 1);
        seen += !all[i].tmp;
        if (old) {
            remove_step(dir, &all[i], &st, err);
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
            remove_step(dir, &all[i], &st, err);
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
    char path[HSP_CKPT_PATH];
    cJSON *m = NULL;
    struct hsp_ckpt *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    enum hsp_status st = hsp_ckpt_step_dir(dir, step, false, path, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_manifest_read(path, c, &m, err);
    }
    if (st == HSP_OK && c->info.step != step) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s holds step %" PRIu64, path, c->info.step);
    }
    if (st == HSP_OK && (c->shard = calloc(c->info.n_ranks, sizeof(*c->shard))) == NULL) {
        st = hsp_err_nomem(err, "%u shards", c->info.n_ranks);
    }
    if (st == HSP_OK) {
        c->n_shards = c->info.n_ranks;
        st = open_shards(path, &c->info, c->shard, err);
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
