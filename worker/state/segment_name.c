#include "worker/state/segment_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/state/segment_dir.h"

void hsp_segname_key(const struct hsp_segname *n, struct hsp_segment_key *ret)
{
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->job, sizeof ret->job, "job-%" PRIu32, n->job);
    (void)snprintf(ret->device, sizeof ret->device, "%" PRIu32 "/%" PRIu32, n->device, n->rank);
    if (n->owner != n->rank) {
        (void)snprintf(ret->owner, sizeof ret->owner, "%" PRIu32 "/%" PRIu32, n->device, n->owner);
    }
    ret->epoch = n->plan;
    ret->slot = n->slot;
}

/* "A/B" as two numbers. */
static bool parse_pair(const char *text, uint32_t *ret_a, uint32_t *ret_b)
{
    char first[16];
    const char *slash = strchr(text, '/');
    uint64_t a, b;
    if (slash == NULL || (size_t)(slash - text) >= sizeof first) {
        return false;
    }
    memcpy(first, text, (size_t)(slash - text));
    first[slash - text] = '\0';
    if (!hsp_parse_u64(first, &a) || !hsp_parse_u64(slash + 1, &b) || a > UINT32_MAX ||
        b > UINT32_MAX) {
        return false;
    }
    *ret_a = (uint32_t)a;
    *ret_b = (uint32_t)b;
    return true;
}

bool hsp_segname_parse(const struct hsp_segment_key *key, struct hsp_segname *ret)
{
    struct hsp_segname n = {.plan = key->epoch, .slot = key->slot};
    uint64_t job;
    uint32_t device;
    if (strncmp(key->job, "job-", 4) != 0 || !hsp_parse_u64(key->job + 4, &job) ||
        job > UINT32_MAX || !parse_pair(key->device, &n.device, &n.rank)) {
        return false;
    }
    n.job = (uint32_t)job;
    n.owner = n.rank;
    if (key->owner[0] != '\0' && !parse_pair(key->owner, &device, &n.owner)) {
        return false;
    }
    *ret = n;
    return true;
}

bool hsp_segname_of(const struct hsp_segment_info *file, struct hsp_segname *ret)
{
    struct hsp_segment_key key = file->key;
    bool named =
        file->status == HSP_OK || /* else the head says nothing, perhaps of another format */
        (file->status != HSP_EINVAL && hsp_segment_key_parse(file->file, &key));
    return named && hsp_segname_parse(&key, ret);
}

static int newest_first(const void *a, const void *b)
{
    const struct hsp_m_holding *x = a, *y = b;
    if (x->job != y->job) {
        return x->job > y->job ? -1 : 1;
    }
    if (x->plan != y->plan) {
        return x->plan > y->plan ? -1 : 1;
    }
    if (x->version != y->version) {
        return x->version > y->version ? -1 : 1;
    }
    return x->owner != y->owner ? (x->owner < y->owner ? -1 : 1)
                                : (x->device > y->device) - (x->device < y->device);
}

enum hsp_status hsp_segname_scan(const char *dir, struct hsp_m_holding **ret, uint32_t *ret_n,
                                 struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    enum hsp_status st = hsp_segment_scan(dir, &info, &n, err);
    if (st == HSP_ENOENT) {
        st = HSP_OK;
    }
    struct hsp_m_holding *h = st == HSP_OK ? calloc(n + 1, sizeof *h) : NULL;
    uint32_t m = 0;
    if (st == HSP_OK && h == NULL) {
        st = hsp_err_nomem(err, "%zu segments", n);
    }
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_segname name;
        if (info[i].status == HSP_OK && info[i].version != HSP_NO_VERSION &&
            hsp_segname_parse(&info[i].key, &name)) {
            h[m++] = (struct hsp_m_holding){.job = name.job,
                                            .device = name.device,
                                            .plan = name.plan,
                                            .rank = name.rank,
                                            .owner = name.owner,
                                            .version = info[i].version};
        }
    }
    free(info);
    if (st == HSP_OK) {
        qsort(h, m, sizeof *h, newest_first);
        *ret = h;
        *ret_n = m;
    }
    return st;
}

/* Returns true if a sealed segment of the same job and device is there. */
static bool device_has_state(const struct hsp_segment_info *info, size_t n,
                             const struct hsp_segname *of)
{
    for (size_t i = 0; i < n; i++) {
        struct hsp_segname name;
        if (info[i].status == HSP_OK && info[i].version != HSP_NO_VERSION &&
            hsp_segname_parse(&info[i].key, &name) && name.job == of->job &&
            name.device == of->device) {
            return true;
        }
    }
    return false;
}

/* Returns true if no process will seal or read a segment: it is unsealed, or damaged. */
static bool of_no_use(const struct hsp_segment_info *i)
{
    return i->status == HSP_EDIGEST || (i->status == HSP_OK && i->version == HSP_NO_VERSION);
}

/* Deletes the notes of the device. A folder of their name is another's: it stays, and is in
 * nobody's way. */
static enum hsp_status remove_notes(const char *dir, uint32_t job, uint32_t device,
                                    struct hsp_err *err)
{
    char notes[PATH_MAX];
    hsp_segname_notes(dir, job, device, notes);
    return unlink(notes) != 0 && errno != ENOENT && errno != EISDIR
               ? hsp_err_set(err, HSP_EIO, errno, "cannot remove %s", notes)
               : HSP_OK;
}

/* Deletes @i, and the notes of its device where that has no state of the job. */
static enum hsp_status remove_one(const char *dir, const struct hsp_segment_info *info, size_t n,
                                  const struct hsp_segment_info *i, struct hsp_err *err)
{
    struct hsp_segname name;
    enum hsp_status st = hsp_segment_remove(dir, &i->key, err);
    return st != HSP_OK || !hsp_segname_parse(&i->key, &name) || device_has_state(info, n, &name)
               ? st
               : remove_notes(dir, name.job, name.device, err);
}

static bool is_of_device(const struct hsp_segment_key *key, const void *device)
{
    struct hsp_segname name;
    return hsp_segname_parse(key, &name) && name.device == *(const uint32_t *)device;
}

enum hsp_status hsp_segname_tidy_device(const char *dir, uint32_t device, struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    enum hsp_status st = hsp_segment_remove_unfinished(dir, is_of_device, &device, err);
    st = st == HSP_OK ? hsp_segment_scan(dir, &info, &n, err) : st;
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_segname name;
        if (info[i].status == HSP_OK && info[i].version == HSP_NO_VERSION &&
            hsp_segname_parse(&info[i].key, &name) && name.device == device) {
            st = remove_one(dir, info, n, &info[i], err);
        }
    }
    free(info);
    return st == HSP_ENOENT ? HSP_OK : st;
}

enum hsp_status hsp_segname_tidy(const char *dir, struct hsp_m_damaged **ret, uint32_t *ret_n,
                                 char ret_copy[HSP_SEGMENT_FILE], struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    uint32_t m = 0;
    const char *copy = "";
    enum hsp_status st = hsp_segment_remove_unfinished(dir, NULL, NULL, err);
    st = st == HSP_OK ? hsp_segment_scan(dir, &info, &n, err) : st;
    struct hsp_m_damaged *damaged = st == HSP_OK ? calloc(n + 1, sizeof *damaged) : NULL;
    if (st == HSP_OK && damaged == NULL) {
        st = hsp_err_nomem(err, "%zu segments", n);
    }
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_segname name;
        if (info[i].status == HSP_EINVAL) {
            copy = info[i].file;
        }
        if (!of_no_use(&info[i]) || !hsp_segname_parse(&info[i].key, &name)) {
            continue;
        }
        if (info[i].status == HSP_EDIGEST) {
            damaged[m++] = (struct hsp_m_damaged){.job = name.job,
                                                  .device = name.device,
                                                  .plan = name.plan,
                                                  .rank = name.rank,
                                                  .owner = name.owner,
                                                  .version = HSP_NO_VERSION,
                                                  .part = "the head"};
        }
        st = remove_one(dir, info, n, &info[i], err);
    }
    (void)snprintf(ret_copy, HSP_SEGMENT_FILE, "%s", copy);
    free(info);
    if (st != HSP_OK) {
        free(damaged);
        return st;
    }
    *ret = damaged;
    *ret_n = m;
    return HSP_OK;
}

void hsp_segname_notes(const char *dir, uint32_t job, uint32_t device, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/job-%" PRIu32 "-%" PRIu32 ".metrics", dir, job, device);
}

enum hsp_status hsp_segname_discard(const char *dir, uint32_t job, uint32_t device,
                                    uint64_t keep_plan, struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0, kept = 0;
    enum hsp_status st = hsp_segment_scan(dir, &info, &n, err);
    if (st == HSP_ENOENT) {
        return HSP_OK;
    }
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_segname name;
        bool usable = info[i].status == HSP_OK || info[i].status == HSP_EDIGEST;
        if (!usable || !hsp_segname_of(&info[i], &name) || name.job != job ||
            name.device != device) {
            continue; /* of another format: not ours to delete */
        }
        if (keep_plan != 0 && name.plan >= keep_plan) {
            kept++;
        } else {
            st = hsp_segment_remove(dir, &info[i].key, err);
        }
    }
    free(info);
    return st == HSP_OK && kept == 0 ? remove_notes(dir, job, device, err) : st;
}
