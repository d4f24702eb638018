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

/* Cuts "+LETTER" and a number off the end of @text. */
static bool cut_number(char *text, char letter, uint64_t *ret)
{
    char *last = strrchr(text, '+');
    if (last == NULL || last[1] != letter || !hsp_parse_u64(last + 2, ret)) {
        return false;
    }
    *last = '\0';
    return true;
}

/* Cuts "+NODE+INDEX" off the end of @text, as NODE/INDEX. */
static bool cut_device(char *text, char ret[80])
{
    char *index = strrchr(text, '+'), *node;
    if (index == NULL) {
        return false;
    }
    *index = '\0';
    node = strrchr(text, '+');
    if (node == NULL || snprintf(ret, 80, "%s/%s", node + 1, index + 1) >= 80) {
        return false;
    }
    *node = '\0';
    return true;
}

bool hsp_segment_key_names(const struct hsp_segment_key *key, const char *file)
{
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    return hsp_segment_paths(".", key, path, tmp, NULL) == HSP_OK && strcmp(path + 2, file) == 0;
}

bool hsp_segment_key_parse(const char *file, struct hsp_segment_key *ret)
{
    char text[NAME_MAX + 1];
    struct hsp_segment_key k = {0}, normal;
    size_t n = strlen(file);
    uint64_t slot;
    if (n > NAME_MAX || n < 4 || strcmp(file + n - 4, ".seg") != 0) {
        return false;
    }
    memcpy(text, file, n - 4);
    text[n - 4] = '\0';
    bool ok = cut_number(text, 's', &slot) && slot <= UINT32_MAX &&
              cut_number(text, 'e', &k.epoch) && cut_device(text, k.device);
    char *of = ok ? strrchr(text, '+') : NULL;
    if (of != NULL && strcmp(of, "+of") == 0) {
        *of = '\0';
        memcpy(k.owner, k.device, sizeof(k.owner));
        ok = cut_device(text, k.device);
    }
    ok = ok && strlen(text) < sizeof(k.job);
    if (ok) {
        memcpy(k.job, text, strlen(text));
        k.slot = (uint32_t)slot;
    }
    /* A name written in any other way is another's. */
    if (!ok || hsp_segment_normal_key(&k, &normal, NULL) != HSP_OK ||
        !hsp_segment_key_names(&normal, file)) {
        return false;
    }
    *ret = normal;
    return true;
}
