/* Commits and opens checkpoints. The happy path: every rank writes its shard into the folder of the
 * attempt and syncs it. Then one process commits: it reads all headers, checks coverage, writes the
 * manifest, syncs, and renames the folder to step-N.
 *
 * Possible failure modes:
 *   no space, or a dead rank: the attempt is abandoned; readers never look there;
 *   killed between the manifest and the rename: the folder is still an attempt;
 *   killed while an old step-N is replaced: the old one is step-N.job-J, which readers know;
 *   a writer of an earlier epoch wakes: its attempt has another name, and may be gone;
 *   the name is taken: the owner of the step decides (ckpt_owner.h);
 *   two epochs commit one step at a time: a step is deleted through the open folder whose owner was
 *   found, the owner of a step that was moved aside is looked up again, and a rename replaces no
 *   step: that of the later epoch stays;
 *   the folder cannot be synced: the commit fails, and the old step and the new one both stay;
 *   damage afterwards: the manifest has a digest and the hashes of the metadata of the shards; the
 *   metadata have the hashes of the contents. */
#include "worker/state/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/layout/box.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_manifest.h"
#include "worker/state/ckpt_owner.h"
#include "worker/state/ckpt_shard.h"

#define TRIES 3u /* of a name: each but the last met another epoch that committed at that moment */

/* ---- commit ---- */

/* Opens all shards of a step. @hold: the files stay open, to be read. */
static enum hsp_status open_shards(const struct hsp_folder *step, const struct hsp_ckpt_info *info,
                                   bool hold, struct hsp_ckpt_shard *s, struct hsp_err *err)
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
        if (!hold) {
            hsp_st_close_file(s[i].st);
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
    enum hsp_status st = open_shards(tmp, info, false, s, err);
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

struct strangers {
    const struct hsp_folder *in;
    uint32_t n_ranks;
};

static bool remove_stranger(void *ctx, const char *name)
{
    const struct strangers *s = ctx;
    if (strcmp(name, HSP_CKPT_MANIFEST) != 0 && !hsp_ckpt_is_shard(name, s->n_ranks)) {
        (void)unlinkat(s->in->fd, name, 0); /* not a folder; our readers ignore a rest */
    }
    return true;
}

/* Deletes all files but the manifest and the shards of @n_ranks. A former attempt of more ranks, or
 * a killed attempt, has left them; readers that do not know the manifest would take them as part of
 * the step. */
static void remove_strangers(const struct hsp_folder *tmp, uint32_t n_ranks)
{
    struct strangers s = {tmp, n_ranks};
    (void)hsp_folder_each(tmp, remove_stranger, &s, NULL);
}

static bool is_there(const struct hsp_folder *job, const char *name)
{
    return faccessat(job->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Returns true if @name is the folder that is open as @step. */
static bool is_open_as(const struct hsp_folder *job, const char *name,
                       const struct hsp_folder *step)
{
    struct stat a, b;
    return fstatat(job->fd, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(step->fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Deletes the folder @name, open as @step. All but the files in it stays, in NAME.left. */
static void clear_name(const struct hsp_folder *job, const char *name,
                       const struct hsp_folder *step)
{
    char left[HSP_CKPT_NAME + 16];
    if (step->fd < 0 ||
        hsp_folder_remove_open(job, step, name, HSP_CKPT_MANIFEST, NULL) == HSP_OK ||
        !is_open_as(job, name, step)) {
        return;
    }
    (void)snprintf(left, sizeof left, "%s.left", name); /* the rename to that name reports errors */
    (void)hsp_folder_set_aside(job, name, left, sizeof left, NULL);
    if (!is_there(job, name) && !is_open_as(job, left, step)) {
        (void)hsp_folder_move(job, left, name,
                              NULL); /* the step of another epoch, just committed */
    }
}

/* Deletes the copy of this step that is aside, if an epoch before ours has written it: a later job,
 * or a later attempt of this job, has moved it. A copy of the same or a later epoch was moved by
 * mistake; the process that moved it puts it back. @whole: step-N, which stays. If @whole has lost
 * that name, or may not be on disk, nothing is deleted. HSP_ENOMEM: the owner is not known. */
static enum hsp_status drop_own_aside(const struct hsp_folder *job, const struct hsp_ckpt_info *us,
                                      const struct hsp_folder *whole, struct hsp_err *err)
{
    char name[HSP_CKPT_NAME], to[HSP_CKPT_NAME];
    struct hsp_ckpt_owner o;
    struct hsp_folder step;
    hsp_ckpt_step_name(us->step, to);
    hsp_ckpt_aside_name(us->step, us->job_id, name);
    enum hsp_status st = hsp_ckpt_owner_open(job, name, us, &o, &step, err);
    bool before = st == HSP_OK && step.fd >= 0 &&
                  (o.kind == HSP_CKPT_NOBODY || (o.kind == HSP_CKPT_OURS && o.epoch < us->epoch));
    if (before) {
        st = hsp_folder_sync(job, err);
    }
    if (before && st == HSP_OK && is_open_as(job, to, whole)) {
        clear_name(job, name, &step);
    }
    hsp_folder_close(&step);
    return st;
}

/* HSP_OK: the step @was, just moved aside, is @step, and still has the owner @o. HSP_AGAIN: it is
 * another step or has another owner. HSP_ENOMEM: not known. */
static enum hsp_status look_again(const struct hsp_folder *job, const char *was,
                                  const struct hsp_ckpt_info *us, const struct hsp_ckpt_owner *o,
                                  const struct hsp_folder *step, struct hsp_err *err)
{
    struct hsp_ckpt_owner now = {.kind = HSP_CKPT_UNKNOWN};
    enum hsp_status st =
        is_open_as(job, was, step) ? hsp_ckpt_owner_of(job, was, us, &now, err) : HSP_AGAIN;
    bool same = now.kind == HSP_CKPT_NOBODY || (now.kind == o->kind && now.job == o->job);
    return st == HSP_OK && (now.later || !same) ? HSP_AGAIN : st;
}

/* Moves the step @to, of @o, open as @step, aside as @was. HSP_AGAIN: another epoch has the name by
 * now; its step is in place. */
static enum hsp_status move_aside(const struct hsp_folder *job, const char *to, const char *was,
                                  const struct hsp_ckpt_info *us, const struct hsp_ckpt_owner *o,
                                  const struct hsp_folder *step, struct hsp_err *err)
{
    if (!is_open_as(job, to, step)) {
        return HSP_AGAIN;
    }
    enum hsp_status st = hsp_folder_move(job, to, was, err);
    if (st != HSP_OK) {
        return is_open_as(job, to, step) ? st : HSP_AGAIN;
    }
    st = look_again(job, was, us, o, step, err);
    if (st == HSP_OK) {
        st = hsp_folder_sync(job, err);
    }
    if (st != HSP_OK) {
        (void)hsp_folder_move(job, was, to, NULL); /* best effort: it is found aside, too */
    }
    return st;
}

/* Gives the attempt @tmp the name @to. The step that has the name, of @o, open as @step, is first
 * moved aside: readers find it there (hsp_ckpt_open), so a process killed at any moment
 * leaves the old step or the new one. HSP_AGAIN: another epoch has the name by now. After another
 * error the old step is in place; or, where only the last sync failed, aside. */
static enum hsp_status replace(const struct hsp_folder *job, const char *tmp, const char *to,
                               const struct hsp_ckpt_info *us, const struct hsp_ckpt_owner *o,
                               const struct hsp_folder *step, struct hsp_err *err)
{
    char was[HSP_CKPT_NAME];
    bool taken = is_there(job, to);
    hsp_ckpt_aside_name(us->step, o->kind == HSP_CKPT_EARLIER ? o->job : us->job_id, was);
    enum hsp_status st = taken ? move_aside(job, to, was, us, o, step, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    st = hsp_folder_move(job, tmp, to, err); /* over no step: a folder with files is in the way */
    if (st == HSP_OK) {
        return hsp_folder_sync(job, err);
    }
    if (is_there(job, to)) {
        return HSP_AGAIN;
    }
    if (taken) {
        (void)hsp_folder_move(job, was, to, NULL); /* as above */
    }
    return st;
}

/* Whether the step @to, of @o, may be replaced or moved aside; else why not. */
static enum hsp_status may_replace(const struct hsp_folder *job, const char *to,
                                   const struct hsp_ckpt_owner *o, struct hsp_err *err)
{
    switch (o->kind) {
    case HSP_CKPT_NOBODY:
    case HSP_CKPT_OURS:
    case HSP_CKPT_EARLIER:
        return o->later ? hsp_err_set(err, HSP_ESTALE, 0, "%s/%s is of a later epoch, and stays",
                                      job->path, to)
                        : HSP_OK;
    case HSP_CKPT_FOREIGN:
        return hsp_err_set(err, HSP_EEXIST, 0,
                           "%s/%s is of another cluster, and stays: move it, or set another "
                           "checkpoint.path",
                           job->path, to);
    case HSP_CKPT_UNKNOWN: break;
    }
    return hsp_err_set(err, HSP_EEXIST, 0,
                       "%s/%s may be of another job or cluster, and stays: move it, or set another "
                       "checkpoint.path (%s)",
                       job->path, to, o->why.msg);
}

/* Checks, where the name @to is free, that no copy of this step of a later epoch lies aside. Such a
 * copy was moved there by mistake, by a process that was killed before it put it back. Readers find
 * the copy there, and no earlier step takes its name. */
static enum hsp_status none_is_later(const struct hsp_folder *job, const char *to,
                                     const struct hsp_ckpt_info *us, struct hsp_err *err)
{
    char was[HSP_CKPT_NAME];
    struct hsp_ckpt_owner o;
    hsp_ckpt_aside_name(us->step, us->job_id, was);
    enum hsp_status st = hsp_ckpt_owner_of(job, was, us, &o, err);
    return st == HSP_OK && o.kind == HSP_CKPT_OURS && o.later
               ? hsp_err_set(err, HSP_ESTALE, 0, "%s/%s, to be %s, is of a later epoch, and stays",
                             job->path, was, to)
               : st;
}

/* Gives the attempt @tmp the name @to, if the owner of the step that has the name lets it. The step
 * of an earlier job is kept under another name; *ret_aside is then the number of that job, else 0.
 * HSP_AGAIN: the owner is another by now. */
static enum hsp_status try_name(const struct hsp_folder *job, const char *tmp, const char *to,
                                const struct hsp_ckpt_info *us, uint32_t *ret_aside,
                                struct hsp_err *err)
{
    char was[HSP_CKPT_NAME];
    struct hsp_ckpt_owner o;
    struct hsp_folder step;
    enum hsp_status st = hsp_ckpt_owner_open(job, to, us, &o, &step, err);
    if (st == HSP_OK) {
        st = may_replace(job, to, &o, err);
    }
    if (st == HSP_OK && step.fd < 0) {
        st = none_is_later(job, to, us, err);
    }
    if (st == HSP_OK && (o.kind == HSP_CKPT_NOBODY || (o.kind == HSP_CKPT_OURS && o.damaged))) {
        clear_name(job, to, &step);
    } else if (st == HSP_OK && o.kind == HSP_CKPT_OURS) {
        st = drop_own_aside(job, us, &step, err);
    }
    if (st == HSP_OK) {
        st = replace(job, tmp, to, us, &o, &step, err);
        *ret_aside = st == HSP_OK && o.kind == HSP_CKPT_EARLIER ? o.job : 0;
    }
    if (st == HSP_OK && o.kind == HSP_CKPT_OURS) { /* this very folder: perhaps of our own epoch */
        hsp_ckpt_aside_name(us->step, us->job_id, was);
        if (is_open_as(job, was, &step)) {
            clear_name(job, was, &step);
        }
    }
    hsp_folder_close(&step);
    return st;
}

static enum hsp_status take_name(const struct hsp_folder *job, const char *tmp, const char *to,
                                 const struct hsp_ckpt_info *us, uint32_t *ret_aside,
                                 struct hsp_err *err)
{
    enum hsp_status st = HSP_AGAIN;
    for (unsigned i = 0; st == HSP_AGAIN && i < TRIES; i++) {
        st = try_name(job, tmp, to, us, ret_aside, err);
    }
    return st == HSP_AGAIN ? hsp_err_set(err, HSP_EEXIST, 0,
                                         "other epochs of the job write %s/%s, too", job->path, to)
                           : st;
}

enum hsp_status hsp_ckpt_commit(const char *dir, const struct hsp_ckpt_info *info,
                                const struct hsp_data_cursor *data, const char *config_json,
                                struct hsp_ckpt_done *ret, struct hsp_err *err)
{
    struct hsp_ckpt_done done = {0};
    char tmp[HSP_CKPT_NAME], to[HSP_CKPT_NAME];
    struct hsp_folder job = {.fd = -1}, step = {.fd = -1};
    if (info->n_ranks == 0 || info->n_ranks > HSP_CKPT_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "checkpoint of %u ranks", info->n_ranks);
    }
    hsp_ckpt_tmp_name(info, tmp);
    hsp_ckpt_step_name(info->step, to);
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st == HSP_OK) {
        st = hsp_folder_open_in(&job, tmp, false, &step, err);
    }
    st = st == HSP_ENOENT ? HSP_EDIGEST : st; /* no shard was written */
    if (st == HSP_OK) {
        st = write_manifest(&step, info, data, config_json, &done.content, err);
    }
    if (st == HSP_OK) {
        remove_strangers(&step, info->n_ranks);
        st = hsp_folder_sync(&step, err);
    }
    if (st == HSP_OK) {
        st = take_name(&job, tmp, to, info, &done.aside, err);
    }
    if (st == HSP_OK) {
        (void)drop_own_aside(&job, info, &step, NULL); /* else the next prune does */
    }
    hsp_folder_close(&step);
    hsp_folder_close(&job);
    if (st == HSP_OK && ret != NULL) {
        *ret = done;
    }
    return st;
}

/* ---- reading ---- */

/* Compares the manifest with the shards: none was exchanged since the commit. */
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

/* Checks that the folder holds the step, and belongs to the job, that its name tells. */
static enum hsp_status match_name(const struct hsp_ckpt *c, const struct hsp_folder *in,
                                  const struct hsp_ckpt_place *at, struct hsp_err *err)
{
    if (c->info.step != at->step) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s holds step %" PRIu64, in->path, c->info.step);
    }
    return at->aside == 0 || c->info.job_id == at->aside
               ? HSP_OK
               : hsp_err_set(err, HSP_EDIGEST, 0, "%s holds a step of job %u", in->path,
                             c->info.job_id);
}

/* Opens the step at @at. @hold: its files stay open, to be read. */
static enum hsp_status open_place(const char *dir, const struct hsp_ckpt_place *at, bool hold,
                                  struct hsp_ckpt **ret, struct hsp_err *err)
{
    struct hsp_folder job = {.fd = -1}, in = {.fd = -1};
    cJSON *m = NULL;
    struct hsp_ckpt *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    hsp_ckpt_place_name(at, c->name);
    enum hsp_status st = hsp_folder_open(dir, false, &job, err);
    if (st == HSP_OK) {
        st = hsp_folder_open_in(&job, c->name, false, &in, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_manifest_read(&in, c, &m, err);
    }
    if (st == HSP_OK) {
        st = match_name(c, &in, at, err);
    }
    if (st == HSP_OK && (c->shard = calloc(c->info.n_ranks, sizeof(*c->shard))) == NULL) {
        st = hsp_err_nomem(err, "%u shards", c->info.n_ranks);
    }
    if (st == HSP_OK) {
        c->n_shards = c->info.n_ranks;
        st = open_shards(&in, &c->info, hold, c->shard, err);
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

enum hsp_status hsp_ckpt_open_at(const char *dir, const struct hsp_ckpt_place *at,
                                 struct hsp_ckpt **ret, struct hsp_err *err)
{
    return open_place(dir, at, true, ret, err);
}

enum hsp_status hsp_ckpt_look_at(const char *dir, const struct hsp_ckpt_place *at,
                                 struct hsp_ckpt **ret, struct hsp_err *err)
{
    return open_place(dir, at, false, ret, err);
}

/* Returns true if the step @c, which may be NULL, is of @job and has @content, where that is
 * known. */
static bool is_it(const struct hsp_ckpt *c, uint32_t job, const uint64_t *content)
{
    return c != NULL && c->info.job_id == job &&
           (content == NULL || hsp_ckpt_content(c) == *content);
}

/* Opens step-N, or step-N.job-JOB where that is the step and step-N is not, or is of another job or
 * unreadable. */
static enum hsp_status open_step(const char *dir, uint64_t step, uint32_t job,
                                 const uint64_t *content, struct hsp_ckpt **ret,
                                 struct hsp_err *err)
{
    const struct hsp_ckpt_place named = {.step = step}, aside = {.step = step, .aside = job};
    struct hsp_ckpt *c = NULL, *own = NULL;
    struct hsp_err why = {0};
    enum hsp_status st = hsp_ckpt_open_at(dir, &named, &c, err);
    if (job == 0 || st == HSP_ENOMEM || is_it(c, job, content)) {
        *ret = st == HSP_OK ? c : *ret;
        return st;
    }
    enum hsp_status mine = hsp_ckpt_open_at(dir, &aside, &own, &why);
    bool other = mine == HSP_OK && is_it(c, job, NULL) && !is_it(own, job, content);
    if ((mine == HSP_OK && !other) || mine == HSP_ENOMEM) {
        (void)hsp_ckpt_close(c);
        *ret = mine == HSP_OK ? own : *ret;
        return mine == HSP_OK ? HSP_OK : hsp_err_set(err, mine, 0, "%s", why.msg);
    }
    (void)hsp_ckpt_close(own);
    *ret = st == HSP_OK ? c : *ret;
    return st;
}

enum hsp_status hsp_ckpt_open(const char *dir, uint64_t step, uint32_t job, struct hsp_ckpt **ret,
                              struct hsp_err *err)
{
    return open_step(dir, step, job, NULL, ret, err);
}

enum hsp_status hsp_ckpt_open_meant(const char *dir, uint64_t step, uint32_t job, uint64_t content,
                                    struct hsp_ckpt **ret, struct hsp_err *err)
{
    return open_step(dir, step, job, &content, ret, err);
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
