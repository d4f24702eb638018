#include "worker/state/segment_key.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/str.h"

static bool device_text(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-./")] == '\0';
}

enum hsp_status hsp_segment_normal_key(const struct hsp_segment_key *key,
                                       struct hsp_segment_key *ret, struct hsp_err *err)
{
    struct hsp_segment_key k;
    memset(&k, 0, sizeof(k));
    if (memchr(key->job, '\0', sizeof(key->job)) == NULL ||
        memchr(key->device, '\0', sizeof(key->device)) == NULL ||
        memchr(key->owner, '\0', sizeof(key->owner)) == NULL || !hsp_name_valid(key->job) ||
        key->device[0] == '\0' || !device_text(key->device) || !device_text(key->owner)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "job %.63s, device %.79s: not names of a segment",
                           key->job, key->device);
    }
    memcpy(k.job, key->job, strlen(key->job));
    memcpy(k.device, key->device, strlen(key->device));
    memcpy(k.owner, key->owner, strlen(key->owner));
    k.epoch = key->epoch;
    k.slot = key->slot;
    memcpy(ret, &k, sizeof(k));
    return HSP_OK;
}

/* '/' has no place in a file name, '+' none in a device's. */
static void file_text(const char *s, char ret[80])
{
    size_t i = 0;
    for (; s[i] != '\0'; i++) {
        ret[i] = s[i] == '/' ? '+' : s[i];
    }
    ret[i] = '\0';
}

enum hsp_status hsp_segment_paths(const char *dir, const struct hsp_segment_key *key,
                                  char ret_path[HSP_SEGMENT_PATH], char ret_tmp[HSP_SEGMENT_PATH],
                                  struct hsp_err *err)
{
    char device[80], owner[80], name[HSP_SEGMENT_PATH];
    file_text(key->device, device);
    file_text(key->owner, owner);
    int n =
        snprintf(name, sizeof(name), "%s+%s%s%s+e%llu+s%u", key->job, device,
                 owner[0] != '\0' ? "+of+" : "", owner, (unsigned long long)key->epoch, key->slot);
    int m = snprintf(ret_path, HSP_SEGMENT_PATH, "%s/%s.seg", dir, name);
    (void)snprintf(ret_tmp, HSP_SEGMENT_PATH, "%s/%s.tmp", dir, name);
    if (n < 0 || n + 4 > NAME_MAX || m < 0 || m >= HSP_SEGMENT_PATH) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "name of a segment of %s is too long", key->device);
    }
    return HSP_OK;
}
