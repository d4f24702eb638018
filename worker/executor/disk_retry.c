#include "worker/executor/disk_retry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Returns the remedy for errno @sys, as the end of a sentence: "make room there". Never NULL. */
static const char *remedy_of(int sys)
{
    switch (sys) {
    case ENOSPC:
    case EDQUOT: return "make room there";
    case EACCES:
    case EPERM:
    case EROFS: return "let the user of hspmd-worker write there";
    case ENOTDIR:
    case EISDIR: return "move away the file or folder in its place";
    case ETIMEDOUT: return "is its file server up?";
    case ENAMETOOLONG: return "take a shorter checkpoint.path";
    default: return "check that disk";
    }
}

uint32_t hsp_disk_pause_ms(uint32_t tries)
{
    uint32_t ms = HSP_DISK_PAUSE_MS;
    for (uint32_t i = 1; i < tries && ms < HSP_DISK_PAUSE_MAX_MS; i++) {
        ms *= 2;
    }
    return ms < HSP_DISK_PAUSE_MAX_MS ? ms : HSP_DISK_PAUSE_MAX_MS;
}

void hsp_disk_explain(struct hsp_err *err)
{
    if (err != NULL && err->sys != 0) {
        size_t n = strlen(err->msg);
        (void)snprintf(err->msg + n, sizeof(err->msg) - n, "; %s", remedy_of(err->sys));
    }
}
