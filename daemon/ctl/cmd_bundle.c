#include "daemon/ctl/cmd_bundle.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"

enum { O_FILE }; /* rows of bundle_options */

#define BLOCK       512u
#define BUNDLE_MAX  ((size_t)512 << 20) /* in memory: a plan and 4096 events a job are a few MiB */
#define CONFIG_MAX  ((size_t)1 << 20)
#define BUNDLE_JOBS 64 /* newest jobs whose plan and events are taken */

static void put_octal(char *at, size_t width, uint64_t v)
{
    at[--width] = '\0';
    while (width > 0) {
        at[--width] = (char)('0' + (v & 7));
        v >>= 3;
    }
}

/* One member: header block, content, zeros up to the next block. */
static void put_member(struct hsp_buf *tar, const char *name, const char *text, size_t len)
{
    static const char zero[BLOCK];
    char h[BLOCK] = {0};
    unsigned sum = 0;
    (void)snprintf(h, 100, "hspmd-bundle/%s", name); /* our names are short */
    put_octal(h + 100, 8, 0600);
    put_octal(h + 108, 8, 0);
    put_octal(h + 116, 8, 0);
    put_octal(h + 124, 12, len);
    put_octal(h + 136, 12, (uint64_t)time(NULL));
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++) {
        sum += (unsigned char)h[i];
    }
    put_octal(h + 148, 7, sum);
    hsp_buf_append(tar, h, sizeof h);
    hsp_buf_append(tar, text, len);
    hsp_buf_append(tar, zero, (BLOCK - len % BLOCK) % BLOCK);
}

/* One request as a member; every reply of it, or why there is none. HSP_ENOMEM: not so. */
static enum hsp_status ask_member(struct hsp_ctl *ctl, struct hsp_buf *tar, const char *name,
                                  struct hsp_msg *m, struct hsp_err *err)
{
    struct hsp_remote *r = NULL;
    struct hsp_buf all;
    bool more = true;
    hsp_buf_init(&all, BUNDLE_MAX);
    enum hsp_status st = hsp_remote_open(ctl, &r, err);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, m, err);
    }
    while (st == HSP_OK && more) {
        const char *text;
        size_t len;
        st = hsp_remote_recv(r, (uint32_t)ctl->timeout_ms, &text, &len, &more, err);
        if (st == HSP_OK) {
            hsp_buf_append(&all, text, len);
        }
    }
    (void)hsp_remote_close(r);
    if (st != HSP_OK && st != HSP_ENOMEM) {
        hsp_buf_printf(&all, "not here: %s\n", err->msg);
        st = HSP_OK;
    }
    st = st == HSP_OK ? hsp_buf_status(&all) : st;
    put_member(tar, name, (const char *)all.data, all.len);
    hsp_buf_fini(&all);
    return st;
}

/* Lines that name a key, token or password lose their value. */
static void redact(const char *text, size_t len, struct hsp_buf *out)
{
    static const char *const secret[] = {"key", "token", "password", "secret", "psk"};
    const char *end = text + len;
    while (text < end) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((nl != NULL ? nl : end) - text);
        const char *colon = memchr(text, ':', n);
        bool hide = false;
        for (size_t i = 0; i < HSP_ARRAY_LEN(secret); i++) {
            hide = hide || memmem(text, n, secret[i], strlen(secret[i])) != NULL;
        }
        if (hide) {
            hsp_buf_append(out, text, colon != NULL ? (size_t)(colon - text) : 0);
            hsp_buf_puts(out, ": (redacted)");
        } else {
            hsp_buf_append(out, text, n);
        }
        hsp_buf_puts(out, "\n");
        text += n + (nl != NULL);
    }
}

static enum hsp_status add_config(struct hsp_buf *tar, const char *path, const char *name)
{
    uint8_t *text = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    struct hsp_buf out;
    hsp_buf_init(&out, 2 * CONFIG_MAX + BLOCK);
    enum hsp_status st = hsp_file_read(path, CONFIG_MAX, &text, &len, &err);
    if (st == HSP_OK) {
        redact((const char *)text, len, &out);
    } else {
        hsp_buf_printf(&out, "not here: %s\n", err.msg);
    }
    st = st == HSP_ENOMEM ? st : hsp_buf_status(&out);
    put_member(tar, name, (const char *)out.data, out.len);
    hsp_buf_fini(&out);
    free(text);
    return st;
}

static enum hsp_status add_jobs(struct hsp_ctl *ctl, struct hsp_buf *tar, const cJSON *jobs)
{
    const cJSON *j;
    int left = BUNDLE_JOBS, skip = cJSON_GetArraySize(jobs) - BUNDLE_JOBS;
    enum hsp_status st = HSP_OK;
    cJSON_ArrayForEach(j, jobs)
    {
        struct hsp_err err = {0};
        const char *name = hsp_doc_text(j, "name");
        const char *id = hsp_ctl_text(ctl, "%.0f", hsp_doc_number(j, "id"));
        if (skip-- > 0 || left-- <= 0 || name[0] == '\0' || st != HSP_OK) {
            continue;
        }
        struct hsp_msg plan = {.type = HSP_MSG_PROGRAM, .u.query = {.name = id, .what = "plan"}};
        st = ask_member(ctl, tar, hsp_ctl_text(ctl, "jobs/%s-%s/plan.yaml", name, id), &plan, &err);
    }
    return st;
}

int hsp_cmd_debug_bundle(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char *text = "", *path = ctl->opt[O_FILE];
    cJSON *doc = NULL;
    struct hsp_buf tar;
    struct hsp_msg status = {.type = HSP_MSG_STATUS, .u.query = {.name = "", .what = ""}};
    struct hsp_msg events = {.type = HSP_MSG_EVENTS, .u.query = {.name = "", .what = ""}};
    struct hsp_msg config = {.type = HSP_MSG_STATUS, .u.query = {.name = "", .what = "config"}};
    static const char version[] = "hspmdctl " PACKAGE_VERSION "\n";
    static const char zero[2 * BLOCK];
    path = path != NULL ? path : "hspmd-bundle.tar";
    if (hsp_remote_ask_json(ctl, &status, &text, &doc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    hsp_buf_init(&tar, BUNDLE_MAX);
    put_member(&tar, "version.txt", version, sizeof version - 1);
    put_member(&tar, "status.json", text, strlen(text));
    enum hsp_status st = ask_member(ctl, &tar, "events.jsonl", &events, &err);
    if (st == HSP_OK) {
        st = add_jobs(ctl, &tar, cJSON_GetObjectItemCaseSensitive(doc, "jobs"));
    }
    /* The configuration of the process, independent of the file it was started with and of later
     * changes. */
    if (st == HSP_OK) {
        st = ask_member(ctl, &tar, "config/hspmdd-in-use.yaml", &config, &err);
    }
    if (st == HSP_OK) {
        st = add_config(&tar, HSP_SYSCONFDIR "/hspmd/hspmdd.yaml", "config/hspmdd.yaml");
    }
    if (st == HSP_OK) {
        st =
            add_config(&tar, HSP_SYSCONFDIR "/hspmd/hspmd-worker.yaml", "config/hspmd-worker.yaml");
    }
    hsp_buf_append(&tar, zero, sizeof zero); /* two empty blocks end it */
    cJSON_Delete(doc);
    st = st == HSP_OK ? hsp_buf_status(&tar) : st;
    if (st == HSP_OK) {
        st = hsp_file_write(path, tar.data, tar.len, 0600, &err);
        err.code = st != HSP_OK ? HSP_EIO : HSP_OK; /* no object of hspmdd is missing */
    } else {
        st = hsp_err_set(&err, st, 0, "%s for the bundle",
                         st == HSP_ENOMEM ? "out of memory" : "more than 512 MiB");
    }
    hsp_buf_fini(&tar);
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return fprintf(ctl->out, "%s\n", path) > 0 ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}
