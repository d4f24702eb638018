/* Sends requests to hspmdd, and reads its answers. */
#include "daemon/ctl/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "proto/net/addr.h"
#include "proto/net/frame_client.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"

#define AGAIN_MS 100
#define AGAIN    10 /* a second: twice the time for which hspmdd may have no place */

bool hsp_is_job(const char *word)
{
    static const char yaml[] = ".yaml"; /* a file, even if it is not there: its name is mistyped */
    size_t n = strlen(word);
    bool file = n >= sizeof yaml && strcmp(word + n + 1 - sizeof yaml, yaml) == 0;
    return !file && hsp_name_valid(word) && access(word, F_OK) != 0;
}

struct hsp_remote {
    struct hsp_ctl *ctl;
    struct hsp_client *client;
    const char *address;
    bool keyless; /* not a socket, and without a key */
    uint64_t request;
};

static const char *address_of(const struct hsp_ctl *ctl)
{
    const char *env = getenv("HSPMD_ADDRESS");
    return ctl->address != NULL            ? ctl->address
           : env != NULL && env[0] != '\0' ? env
                                           : HSP_DEFAULT_SOCKET;
}

/* The admin key: --key must exist, the default need not. Sockets need none. */
static enum hsp_status load_key(const struct hsp_ctl *ctl, const struct hsp_addr *addr,
                                struct hsp_net_keys *ret, struct hsp_err *err)
{
    memset(ret, 0, sizeof *ret);
    if (addr->local) {
        return HSP_OK;
    }
    if (ctl->key == NULL) {
        return hsp_net_keys_load(NULL, HSP_DEFAULT_KEY, ret, err);
    }
    ret->have_admin = true;
    return hsp_net_key_load(ctl->key, ret->admin, err);
}

/* hspmdd closes a connection in the handshake when all places are taken by callers that have just
 * proved a key. Nothing has been asked then. */
static enum hsp_status call(struct hsp_remote *r, const struct hsp_net_keys *keys,
                            struct hsp_err *err)
{
    const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000L};
    for (int i = 0;; i++) {
        enum hsp_status st = hsp_client_open(r->address, keys, HSP_ROLE_ADMIN,
                                             (uint32_t)r->ctl->timeout_ms, &r->client, err);
        if (st != HSP_ECLOSED || i == AGAIN) {
            return st;
        }
        (void)nanosleep(&pause, NULL); /* a signal only makes it shorter */
    }
}

enum hsp_status hsp_remote_open(struct hsp_ctl *ctl, struct hsp_remote **ret, struct hsp_err *err)
{
    struct hsp_addr addr;
    struct hsp_net_keys keys;
    struct hsp_remote *r = hsp_arena_alloc(ctl->arena, sizeof *r);
    if (r == NULL) {
        return hsp_err_nomem(err, "a connection");
    }
    *r = (struct hsp_remote){.ctl = ctl, .address = address_of(ctl)};
    enum hsp_status st = hsp_addr_parse(r->address, HSP_PORT, &addr, err);
    if (st == HSP_OK) {
        st = load_key(ctl, &addr, &keys, err);
    }
    if (st == HSP_OK && !keys.have_admin && !hsp_addr_is_loopback(&addr)) {
        st = hsp_err_set(err, HSP_EPERM, 0,
                         "%s: hspmdd there needs the admin key, and there is no %s: name the key "
                         "with --key FILE; the path of a socket begins with /",
                         r->address, HSP_DEFAULT_KEY);
    }
    if (st != HSP_OK) {
        return st;
    }
    st = call(r, &keys, err);
    if (st == HSP_EAUTH && keys.have_admin) {
        struct hsp_err why = *err;
        return hsp_err_set(err, st, 0, "%s: compare the key %s here with the admin_key of hspmdd",
                           why.msg, ctl->key != NULL ? ctl->key : HSP_DEFAULT_KEY);
    }
    if (st == HSP_EAUTH || st == HSP_EPERM || st == HSP_ENOMEM) {
        return st;
    }
    if (st != HSP_OK) { /* every error means that hspmdd cannot be reached */
        char why[sizeof err->msg];
        (void)snprintf(why, sizeof why, "%s", err != NULL ? err->msg : "");
        return hsp_err_set(
            err, HSP_ECLOSED, 0,
            "cannot reach hspmdd: %s; check that it runs and that --address is right%s", why,
            addr.local || keys.have_admin ? "" : "; without keys it listens on its socket only");
    }
    r->keyless = !addr.local && !keys.have_admin;
    *ret = r;
    return HSP_OK;
}

bool hsp_remote_keyless(const struct hsp_remote *r)
{
    return r->keyless;
}

struct hsp_remote *hsp_remote_close(struct hsp_remote *r)
{
    if (r != NULL) {
        hsp_client_close(r->client);
        r->client = NULL;
    }
    return NULL;
}

enum hsp_status hsp_remote_send(struct hsp_remote *r, struct hsp_msg *m, struct hsp_err *err)
{
    struct hsp_buf body;
    hsp_buf_init(&body, HSP_MSG_BODY_MAX);
    m->request = ++r->request;
    enum hsp_status st = hsp_msg_encode(m, &body, err);
    if (st == HSP_OK) {
        const struct hsp_frame_header head = hsp_msg_head(m, body.len);
        st = hsp_client_send(r->client, &head, body.data, body.len, m->blob, m->blob_len,
                             (uint32_t)r->ctl->timeout_ms, err);
    }
    hsp_buf_fini(&body);
    return st;
}

/* The text of an answer, which may have parts from agents: in JSON, control characters stand in
 * strings only, where their code means the same. NULL: no memory. */
static const char *shown(struct hsp_arena *arena, const struct hsp_frame *f, size_t *ret_len)
{
    const char *text = f->blob != NULL ? (const char *)f->blob : "";
    size_t len = f->head.blob_len, n = hsp_str_show(NULL, 0, text, len, true);
    char *copy = hsp_arena_alloc(arena, n + 1);
    if (copy != NULL) {
        (void)hsp_str_show(copy, n + 1, text, len, true);
        *ret_len = n;
    }
    return copy;
}

/* Its body; HSP_OK also for one that refuses. */
static enum hsp_status read_reply(struct hsp_remote *r, const struct hsp_frame *f,
                                  struct hsp_msg *ret, struct hsp_err *err)
{
    enum hsp_status st = hsp_msg_read(f, r->ctl->arena, ret, err);
    if (st == HSP_OK && ret->type != HSP_MSG_REPLY) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "%s answers with %s", r->address,
                         hsp_msg_name(ret->type));
    }
    return st;
}

static enum hsp_status verdict(struct hsp_ctl *ctl, const struct hsp_m_reply *m,
                               struct hsp_err *err)
{
    if (m->status != 0) {
        int code = m->status < 1000 ? -(int)m->status : HSP_EPROTO;
        hsp_str_printf(ctl->said, sizeof ctl->said, "%s", m->message);
        return hsp_err_set(err, (enum hsp_status)code, 0, "%s", m->message);
    }
    return HSP_OK;
}

static enum hsp_status take_reply(struct hsp_remote *r, const struct hsp_frame *f, const char **ret,
                                  size_t *ret_len, bool *ret_more, struct hsp_err *err)
{
    struct hsp_msg m;
    enum hsp_status st = read_reply(r, f, &m, err);
    if (st != HSP_OK) {
        return st;
    }
    *ret = shown(r->ctl->arena, f, ret_len);
    if (*ret == NULL) {
        *ret = "";
        return hsp_err_nomem(err, "the answer");
    }
    *ret_more = m.u.reply.more;
    return verdict(r->ctl, &m.u.reply, err);
}

static enum hsp_status next_frame(struct hsp_remote *r, uint32_t wait_ms, struct hsp_frame *ret,
                                  struct hsp_err *err)
{
    enum hsp_status st = hsp_client_recv(r->client, wait_ms == UINT32_MAX ? 0 : wait_ms, ret, err);
    if (st == HSP_ETIMEDOUT) {
        return hsp_err_set(err, HSP_ECLOSED, 0,
                           "hspmdd at %s did not answer within %u ms; --timeout allows more time",
                           r->address, wait_ms);
    }
    if (st == HSP_ECLOSED || st == HSP_EIO) {
        return hsp_err_set(err, HSP_ECLOSED, 0, "hspmdd at %s closed the connection%s", r->address,
                           r->keyless ? ": it needs the admin key; " HSP_DEFAULT_KEY
                                        " does not exist, name the key with --key FILE"
                                      : "");
    }
    return st == HSP_OK ? HSP_OK : hsp_err_wrap(err, "hspmdd at %s", r->address);
}

enum hsp_status hsp_remote_recv(struct hsp_remote *r, uint32_t wait_ms, const char **ret,
                                size_t *ret_len, bool *ret_more, struct hsp_err *err)
{
    struct hsp_frame f;
    *ret = "";
    *ret_len = 0;
    *ret_more = false;
    enum hsp_status st = next_frame(r, wait_ms, &f, err);
    if (st == HSP_OK) {
        st = take_reply(r, &f, ret, ret_len, ret_more, err);
        hsp_frame_fini(&f);
    }
    return st;
}

enum hsp_status hsp_remote_recv_bytes(struct hsp_remote *r, uint32_t wait_ms, struct hsp_buf *out,
                                      struct hsp_err *err)
{
    struct hsp_frame f;
    struct hsp_msg m;
    struct hsp_arena_position mark = hsp_arena_mark(r->ctl->arena);
    enum hsp_status st = next_frame(r, wait_ms, &f, err);
    if (st != HSP_OK) {
        return st;
    }
    st = read_reply(r, &f, &m, err);
    st = st == HSP_OK ? verdict(r->ctl, &m.u.reply, err) : st;
    if (st == HSP_OK) {
        hsp_buf_append(out, f.blob != NULL ? f.blob : (const uint8_t *)"", f.head.blob_len);
        st = out->failed ? hsp_err_nomem(err, "the answer") : HSP_OK;
    }
    hsp_frame_fini(&f);
    hsp_arena_rewind(r->ctl->arena, mark);
    return st;
}

enum hsp_status hsp_remote_ask(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret,
                               size_t *ret_len, struct hsp_err *err)
{
    struct hsp_remote *r = NULL;
    bool more;
    *ret = "";
    enum hsp_status st = hsp_remote_open(ctl, &r, err);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, m, err);
    }
    if (st == HSP_OK) {
        st = hsp_remote_recv(r, (uint32_t)ctl->timeout_ms, ret, ret_len, &more, err);
    }
    (void)hsp_remote_close(r);
    return st;
}

enum hsp_status hsp_remote_ask_json(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret_text,
                                    cJSON **ret, struct hsp_err *err)
{
    size_t len = 0;
    enum hsp_status st = hsp_remote_ask(ctl, m, ret_text, &len, err);
    if (st != HSP_OK) {
        return st;
    }
    return hsp_doc_parse(*ret_text, len, ret, err);
}

/* Makes all strings below @o fit for one line of a terminal; of a plan in YAML for several. False:
 * no memory. */
static bool show_strings(cJSON *o)
{
    bool ok = true;
    for (cJSON *v = o; ok && v != NULL; v = v->next) {
        if (!cJSON_IsString(v)) {
            ok = show_strings(v->child); /* as deep as the parser went, at most */
            continue;
        }
        bool lines = v->string != NULL && strcmp(v->string, "plan_yaml") == 0;
        size_t len = strlen(v->valuestring), n = hsp_str_show(NULL, 0, v->valuestring, len, lines);
        char *text = n != len ? malloc(n + 1) : NULL;
        if (text != NULL) {
            (void)hsp_str_show(text, n + 1, v->valuestring, len, lines);
            ok = cJSON_SetValuestring(v, text) != NULL;
            free(text);
        } else {
            ok = n == len;
        }
    }
    return ok;
}

enum hsp_status hsp_doc_parse(const char *text, size_t len, cJSON **ret, struct hsp_err *err)
{
    errno = 0; /* cJSON does not say why it gave up; malloc does */
    *ret = cJSON_ParseWithLength(text, len);
    if (!show_strings(*ret)) {
        cJSON_Delete(*ret);
        *ret = NULL;
        errno = ENOMEM;
    }
    return *ret != NULL      ? HSP_OK
           : errno == ENOMEM ? hsp_err_nomem(err, "the answer")
                             : hsp_err_set(err, HSP_EPROTO, 0, "hspmdd's answer is not JSON");
}

const char *hsp_doc_text(const cJSON *o, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return s != NULL ? s : "";
}

double hsp_doc_number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

bool hsp_doc_has(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key) != NULL;
}
