#include "worker/executor/folder_fault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/size.h"

#define FULL 16u /* room for less than state / FULL helps no plan */

static const struct {
    int sys;
    const char *name, *remedy;
} faults[] = {
    {ENOSPC, "ENOSPC", "make room in state_dir, or mount it with a greater size"},
    {EROFS, "EROFS", "mount it writable"},
    {EIO, "EIO", "look for errors of its disk in the log of the kernel"},
    {EACCES, "EACCES", "give the user of hspmd-worker the right to write there"},
    {EPERM, "EPERM", "give the user of hspmd-worker the right to write there"},
    {ENOENT, "ENOENT", "make the folder again, or restart hspmd-worker"},
    {ENOTDIR, "ENOTDIR", "put a folder in the place of the file"},
    {EISDIR, "EISDIR", "remove the folder that stands in the way"},
    {ELOOP, "ELOOP", "put a folder in the place of the link"},
    {EDQUOT, "EDQUOT", "raise the quota of the user of hspmd-worker"},
    {EFBIG, "EFBIG", "raise the limit of file sizes (LimitFSIZE) of hspmd-worker"},
    {EMFILE, "EMFILE", "raise the limit of open files (LimitNOFILE) of hspmd-worker"},
    {ENFILE, "ENFILE", "raise the kernel's limit of open files (fs.file-max)"},
    {ENAMETOOLONG, "ENAMETOOLONG", "choose a shorter state_dir"},
    {EOPNOTSUPP, "EOPNOTSUPP", "put state_dir on a tmpfs"},
    {EINVAL, "EINVAL", "put state_dir on a tmpfs"},
    {ENODEV, "ENODEV", "put state_dir on a tmpfs"},
    {ENXIO, "ENXIO", "mount it again"},
    {ESTALE, "ESTALE", "mount it again"},
    {ETIMEDOUT, "ETIMEDOUT", "mount it again"},
    {ENOTCONN, "ENOTCONN", "mount it again"},
};

static void name_fault(struct hsp_err *err)
{
    char name[24];
    const char *remedy = "see the log of hspmd-worker";
    (void)snprintf(name, sizeof name, "errno %d", err->sys);
    for (size_t i = 0; i < HSP_ARRAY_LEN(faults); i++) {
        if (faults[i].sys == err->sys) {
            (void)snprintf(name, sizeof name, "%s", faults[i].name);
            remedy = faults[i].remedy;
        }
    }
    size_t n = strlen(err->msg);
    (void)snprintf(err->msg + n, sizeof err->msg - n, " [%s]; %s", name, remedy); /* may be cut */
}

enum hsp_fact_kind hsp_folder_fault(struct hsp_err *err)
{
    bool want = err->sys == ENOMEM || err->sys == ENOSPC ||
                (err->sys == 0 && (err->code == HSP_ENOMEM || err->code == HSP_ENOSPC));
    if (want) {
        if (err->sys == ENOSPC) {
            name_fault(err);
        }
        return HSP_FACT_OUT_OF_MEMORY;
    }
    if (err->sys == 0) {
        return HSP_FACT_OTHER;
    }
    name_fault(err);
    return HSP_FACT_STATE_FOLDER;
}

uint64_t hsp_folder_lack(uint64_t offered, uint64_t need, uint64_t state, uint64_t room)
{
    uint64_t rest = offered > need ? offered - need : 0;
    if (room < state / FULL) {
        return UINT64_MAX;
    }
    return room < state ? rest + need - (uint64_t)((double)need * ((double)room / (double)state))
                        : rest;
}
