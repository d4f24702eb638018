/* Opens the folder of a final model. The happy path: there is no folder yet, or the model in it is
 * of this job.
 *
 * Possible failure modes: the model is another job's, or cannot be read (the folder is renamed,
 * never deleted); want of memory (nothing is touched, since the owner is not known). */
#include "worker/state/final_folder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/str.h"
#include "worker/state/ckpt_sign.h"

#define FINAL "final"

/* Chooses the name that @model, of another job, is to have; *ret "": it is of the job of @us. */
static void name_of(const struct hsp_st_reader *model, const struct hsp_ckpt_info *us,
                    char ret[HSP_CKPT_NAME])
{
    const char *job = hsp_st_meta_value(model, HSP_FINAL_JOB);
    const char *cluster = hsp_st_meta_value(model, HSP_FINAL_CLUSTER);
    char ours[HSP_DIGEST_HEX];
    struct hsp_digest id;
    uint64_t number;
    hsp_digest_hex(us->whose.cluster, ours);
    if (job == NULL || cluster == NULL || !hsp_parse_u64(job, &number) ||
        !hsp_digest_parse(cluster, &id)) {
        (void)snprintf(ret, HSP_CKPT_NAME, FINAL ".earlier");
    } else if (!hsp_digest_equal(id, us->whose.cluster)) {
        (void)snprintf(ret, HSP_CKPT_NAME, FINAL ".job-%" PRIu64 ".%.32s", number, cluster);
    } else if (number != us->job_id) {
        (void)snprintf(ret, HSP_CKPT_NAME, FINAL ".job-%" PRIu64, number);
    } else {
        ret[0] = '\0';
    }
}

/* Reads the owner of the model in the folder; result as in name_of(). */
static enum hsp_status judge(const struct hsp_folder *final, const struct hsp_ckpt_info *us,
                             char ret[HSP_CKPT_NAME], struct hsp_err *err)
{
    struct hsp_st_reader *model = NULL;
    struct hsp_err why = {0};
    struct stat s;
    ret[0] = '\0';
    if (fstatat(final->fd, HSP_FINAL_MODEL, &s, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(s.st_mode)) {
        return HSP_OK; /* no model: a writer of one reports obstacles */
    }
    enum hsp_status st = hsp_st_open_in(final, HSP_FINAL_MODEL, &model, &why);
    switch (st) {
    case HSP_OK:
        name_of(model, us, ret);
        (void)hsp_st_close(model);
        return HSP_OK;
    case HSP_ENOENT: return HSP_OK;
    case HSP_ENOMEM:
    case HSP_EIO:
    case HSP_EPERM: return hsp_err_set(err, st, 0, "%s", why.msg);
    default: (void)snprintf(ret, HSP_CKPT_NAME, FINAL ".earlier"); return HSP_OK;
    }
}

enum hsp_status hsp_final_open(const char *dir, const struct hsp_ckpt_info *us,
                               char ret_aside[HSP_CKPT_NAME], struct hsp_folder *ret,
                               struct hsp_err *err)
{
    struct hsp_folder job;
    ret->fd = -1;
    ret_aside[0] = '\0';
    enum hsp_status st = hsp_ckpt_open_folder(dir, &job, err);
    if (st != HSP_OK) {
        return st;
    }
    st = hsp_folder_open_in(&job, FINAL, true, ret, err);
    if (st == HSP_OK) {
        st = judge(ret, us, ret_aside, err);
    }
    if (st == HSP_OK && ret_aside[0] != '\0') {
        hsp_folder_close(ret);
        st = hsp_folder_set_aside(&job, FINAL, ret_aside, HSP_CKPT_NAME, err);
        if (st == HSP_EEXIST) {
            (void)hsp_err_wrap(err, "%s/" FINAL " is of another job", job.path);
        }
        st = st == HSP_OK ? hsp_folder_open_in(&job, FINAL, true, ret, err) : st;
    }
    if (st != HSP_OK) {
        hsp_folder_close(ret);
    }
    hsp_folder_close(&job);
    return st;
}
