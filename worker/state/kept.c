#include "worker/state/kept.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Job and layout of the name of a segment, JOB+DEVICE+RANK...+eLAYOUT+sSLOT.seg. */
static bool parse(const char *file, uint32_t *ret_job, uint64_t *ret_plan)
{
    const char *end = strrchr(file, '+'), *e = end;
    if (end == NULL || strstr(end, ".seg") == NULL ||
        sscanf(file, "job-%" SCNu32 "+", ret_job) != 1) {
        return false;
    }
    while (e > file && e[-1] != '+') {
        e--;
    }
    return sscanf(e, "e%" SCNu64, ret_plan) == 1;
}

static void note(struct hsp_m_kept *list, uint32_t *n, uint32_t job, uint64_t plan)
{
    uint32_t i = 0;
    while (i < *n && list[i].job != job) {
        i++;
    }
    if (i == HSP_MSG_KEPT) {
        return;
    }
    if (i == *n) {
        list[(*n)++] = (struct hsp_m_kept){.job = job, .name = ""};
    }
    list[i].plan = plan > list[i].plan ? plan : list[i].plan;
}

enum hsp_status hsp_kept_scan(const char *dir, struct hsp_m_kept **ret, uint32_t *ret_n,
                              struct hsp_err *err)
{
    struct hsp_m_kept *list = calloc(HSP_MSG_KEPT, sizeof *list);
    uint32_t n = 0, job = 0;
    uint64_t plan = 0;
    struct dirent *e;
    if (list == NULL) {
        return hsp_err_nomem(err, "%u jobs", HSP_MSG_KEPT);
    }
    DIR *d = opendir(dir);
    if (d == NULL && errno != ENOENT) {
        int why = errno;
        free(list);
        return hsp_err_set(err,
                           why == ENOMEM || why == EMFILE || why == ENFILE ? HSP_ENOMEM : HSP_EIO,
                           why, "state directory %s", dir);
    }
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (parse(e->d_name, &job, &plan)) {
            note(list, &n, job, plan);
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
    *ret = list;
    *ret_n = n;
    return HSP_OK;
}
