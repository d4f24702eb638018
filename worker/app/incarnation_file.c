#include "worker/app/incarnation_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/file_io.h"

#define LINE_BYTES (HSP_DIGEST_HEX) /* with a newline in the place of the NUL */

static enum hsp_status path_of(const char *dir, char ret[PATH_MAX], struct hsp_err *err)
{
    int n = snprintf(ret, PATH_MAX, "%s/incarnation", dir);
    return n < PATH_MAX
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "path of %zu bytes is too long", strlen(dir));
}

enum hsp_status hsp_incarnation_read(const char *dir, struct hsp_digest *ret, struct hsp_err *err)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    *ret = (struct hsp_digest){0, 0};
    enum hsp_status st = path_of(dir, path, err);
    if (st == HSP_OK) {
        st = hsp_file_read_own(path, LINE_BYTES, &text, &len, err);
    }
    if (st == HSP_ENOENT) {
        return HSP_OK;
    }
    if (st == HSP_OK && len > 0 && text[len - 1] == '\n') {
        text[len - 1] = '\0';
    }
    if (st == HSP_ELIMIT || (st == HSP_OK && !hsp_digest_parse((const char *)text, ret))) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "%s is damaged", path);
    }
    free(text);
    return st;
}

enum hsp_status hsp_incarnation_write(const char *dir, struct hsp_digest d, struct hsp_err *err)
{
    char path[PATH_MAX], line[LINE_BYTES];
    enum hsp_status st = path_of(dir, path, err);
    hsp_digest_hex(d, line);
    line[LINE_BYTES - 1] = '\n';
    return st == HSP_OK ? hsp_file_write(path, line, sizeof line, 0600, err) : st;
}
