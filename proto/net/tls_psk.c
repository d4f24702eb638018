#include "proto/net/tls_psk.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/check.h"
#include "proto/host/file_io.h"

#define KEY_FILE_MAX 256 /* 64 digits and some white space */
#define ID_WORKER    "hspmd-worker"
#define ID_ADMIN     "hspmd-admin"
#define REKEY_BYTES  (UINT64_C(1) << 36) /* 2^22 full records */
#define RECORD_MIN   256 /* a short record counts as this: its blocks are bounded too */

struct hsp_tls_ctx {
    SSL_CTX *server, *client;
    struct hsp_net_keys keys;
};

struct hsp_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
    const struct hsp_net_keys *keys;
    enum hsp_net_role role;          /* client: whose key is used; server: whose was named */
    char identity[HSP_TLS_IDENTITY]; /* "": the keys of the context are used, else */
    uint8_t psk[HSP_NET_KEY];
    uint64_t rekey_bytes, written; /* since the sending key is new */
};

const char *hsp_role_name(enum hsp_net_role r)
{
    static const char *const names[] = {"none", "worker", "admin", "local", "open", "child"};
    return (size_t)r < sizeof names / sizeof names[0] ? names[r] : "unknown";
}

/* ---- key files ---- */

static int hex_value(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool parse_key(const uint8_t *p, size_t len, uint8_t ret[HSP_NET_KEY])
{
    while (len > 0 && is_space(p[len - 1])) {
        len--;
    }
    while (len > 0 && is_space(p[0])) {
        p++;
        len--;
    }
    if (len != 2 * HSP_NET_KEY) {
        return false;
    }
    for (size_t i = 0; i < HSP_NET_KEY; i++) {
        int hi = hex_value(p[2 * i]), lo = hex_value(p[2 * i + 1]);
        if (hi < 0 || lo < 0) {
            return false;
        }
        ret[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

enum hsp_status hsp_net_key_load(const char *path, uint8_t ret[HSP_NET_KEY], struct hsp_err *err)
{
    uint8_t *text = NULL, key[HSP_NET_KEY];
    size_t len = 0;
    struct stat st;
    enum hsp_status s = hsp_file_read(path, KEY_FILE_MAX, &text, &len, err);
    if (s != HSP_OK) {
        return s;
    }
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO) != 0) {
        s = hsp_err_set(err, HSP_EPERM, 0,
                        "key file %s is open to everybody (mode %03o): chmod o= %s", path,
                        (unsigned)st.st_mode & 0777u, path);
    } else if (!parse_key(text, len, key)) {
        s = hsp_err_set(err, HSP_EPARSE, 0,
                        "key file %s does not hold 64 hex digits: copy the key there, or make one "
                        "with openssl rand -hex 32",
                        path);
    } else {
        memcpy(ret, key, sizeof key);
    }
    OPENSSL_cleanse(text, len);
    OPENSSL_cleanse(key, sizeof key);
    free(text);
    return s;
}

static enum hsp_status load_one(const char *path, uint8_t key[HSP_NET_KEY], bool *ret_have,
                                struct hsp_err *err)
{
    *ret_have = false;
    if (path == NULL || path[0] == 0) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_net_key_load(path, key, err);
    *ret_have = st == HSP_OK;
    return st == HSP_ENOENT ? HSP_OK : st;
}

enum hsp_status hsp_net_keys_load(const char *worker_path, const char *admin_path,
                                  struct hsp_net_keys *ret, struct hsp_err *err)
{
    struct hsp_net_keys k = {.have_worker = false};
    enum hsp_status st = load_one(worker_path, k.worker, &k.have_worker, err);
    if (st == HSP_OK) {
        st = load_one(admin_path, k.admin, &k.have_admin, err);
    }
    if (st == HSP_OK) {
        *ret = k;
    }
    OPENSSL_cleanse(&k, sizeof k);
    return st;
}

/* ---- sessions from keys ---- */

static const uint8_t *key_of(const struct hsp_net_keys *k, enum hsp_net_role r)
{
    return r == HSP_ROLE_WORKER && k->have_worker ? k->worker
           : r == HSP_ROLE_ADMIN && k->have_admin ? k->admin
                                                  : NULL;
}

/* An external PSK is a session with a chosen secret. NULL without memory. */
static SSL_SESSION *psk_session(SSL *ssl, const uint8_t *key)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *s = SSL_SESSION_new();
    if (s == NULL || cipher == NULL || SSL_SESSION_set1_master_key(s, key, HSP_NET_KEY) != 1 ||
        SSL_SESSION_set_cipher(s, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(s);
        return NULL;
    }
    return s;
}

static int on_find_psk(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret)
{
    struct hsp_tls *t = SSL_get_app_data(ssl);
    enum hsp_net_role r = HSP_ROLE_NONE;
    if (t->identity[0] != 0) {
        bool known = len == strlen(t->identity) && memcmp(id, t->identity, len) == 0;
        *ret = known ? psk_session(ssl, t->psk) : NULL;
        return !known || *ret != NULL;
    }
    if (len == strlen(ID_WORKER) && memcmp(id, ID_WORKER, len) == 0) {
        r = HSP_ROLE_WORKER;
    } else if (len == strlen(ID_ADMIN) && memcmp(id, ID_ADMIN, len) == 0) {
        r = HSP_ROLE_ADMIN;
    }
    const uint8_t *key = key_of(t->keys, r);
    *ret = NULL;
    if (key == NULL) {
        return 1; /* not known: the handshake ends for want of a certificate */
    }
    *ret = psk_session(ssl, key);
    t->role = r;
    return *ret != NULL;
}

static int on_use_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
                      SSL_SESSION **ret)
{
    struct hsp_tls *t = SSL_get_app_data(ssl);
    (void)md; /* the only suite offered has the key's hash */
    bool own = t->identity[0] != 0;
    const char *name = own ? t->identity : t->role == HSP_ROLE_ADMIN ? ID_ADMIN : ID_WORKER;
    *id = (const unsigned char *)name;
    *id_len = strlen(name);
    *ret = psk_session(ssl, own ? t->psk : key_of(t->keys, t->role));
    return *ret != NULL;
}

static SSL_CTX *make_ctx(bool server)
{
    SSL_CTX *c = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (c == NULL || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set_num_tickets(c, 0) != 1) {
        SSL_CTX_free(c);
        return NULL;
    }
    (void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    /* No certificate exists: only a known key ends a handshake well. A client that did not verify
     * would take any server with a certificate. */
    if (server) {
        SSL_CTX_set_verify(c, SSL_VERIFY_NONE, NULL);
        SSL_CTX_set_psk_find_session_callback(c, on_find_psk);
    } else {
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_psk_use_session_callback(c, on_use_psk);
    }
    return c;
}

enum hsp_status hsp_tls_ctx_new(const struct hsp_net_keys *keys, struct hsp_tls_ctx **ret,
                                struct hsp_err *err)
{
    struct hsp_tls_ctx *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->keys = *keys;
        c->server = make_ctx(true);
        c->client = make_ctx(false);
    }
    if (c == NULL || c->server == NULL || c->client == NULL) {
        hsp_tls_ctx_free(c);
        return hsp_err_set(err, HSP_ENOMEM, 0, "cannot set TLS up");
    }
    *ret = c;
    return HSP_OK;
}

struct hsp_tls_ctx *hsp_tls_ctx_free(struct hsp_tls_ctx *c)
{
    if (c != NULL) {
        SSL_CTX_free(c->server);
        SSL_CTX_free(c->client);
        OPENSSL_cleanse(&c->keys, sizeof c->keys);
        free(c);
    }
    return NULL;
}

static enum hsp_status session_new(struct hsp_tls_ctx *c, bool server, struct hsp_tls **ret,
                                   struct hsp_err *err)
{
    struct hsp_tls *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return hsp_err_nomem(err, "TLS");
    }
    t->keys = &c->keys;
    t->rekey_bytes = REKEY_BYTES;
    t->ssl = SSL_new(server ? c->server : c->client);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (t->ssl == NULL || t->in == NULL || t->out == NULL) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        free(t);
        return hsp_err_nomem(err, "TLS");
    }
    SSL_set_bio(t->ssl, t->in, t->out);
    (void)SSL_set_app_data(t->ssl, t);
    if (server) {
        SSL_set_accept_state(t->ssl);
    } else {
        SSL_set_connect_state(t->ssl);
    }
    *ret = t;
    return HSP_OK;
}

enum hsp_status hsp_tls_new(struct hsp_tls_ctx *c, bool server, enum hsp_net_role role,
                            struct hsp_tls **ret, struct hsp_err *err)
{
    if (!server && key_of(&c->keys, role) == NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0, "no %s key", hsp_role_name(role));
    }
    enum hsp_status st = session_new(c, server, ret, err);
    if (st == HSP_OK) {
        (*ret)->role = server ? HSP_ROLE_NONE : role;
    }
    return st;
}

enum hsp_status hsp_tls_new_psk(struct hsp_tls_ctx *c, bool server, const char *identity,
                                const uint8_t key[HSP_NET_KEY], struct hsp_tls **ret,
                                struct hsp_err *err)
{
    size_t n = strlen(identity);
    if (n == 0 || n >= HSP_TLS_IDENTITY) {
        return hsp_err_set(err, HSP_EINVAL, 0, "TLS identity of %zu bytes, want 1 to %d", n,
                           HSP_TLS_IDENTITY - 1);
    }
    enum hsp_status st = session_new(c, server, ret, err);
    if (st == HSP_OK) {
        memcpy((*ret)->identity, identity, n);
        memcpy((*ret)->psk, key, HSP_NET_KEY);
    }
    return st;
}

void hsp_tls_rekey_after(struct hsp_tls *t, uint64_t bytes)
{
    HSP_ASSERT(bytes > 0);
    t->rekey_bytes = bytes;
}

struct hsp_tls *hsp_tls_free(struct hsp_tls *t)
{
    if (t != NULL) {
        SSL_free(t->ssl);
        OPENSSL_cleanse(t, sizeof *t);
        free(t);
    }
    return NULL;
}

/* The oldest error of this thread's queue, which is then empty. */
static const char *tls_reason(void)
{
    unsigned long e = ERR_get_error();
    const char *s = e != 0 ? ERR_reason_error_string(e) : NULL;
    ERR_clear_error();
    return s != NULL ? s : "no reason given";
}

/* SSL_get_error needs an empty queue. Clearing an empty one costs more than a heartbeat's
 * decryption. */
static void no_old_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

enum hsp_status hsp_tls_input(struct hsp_tls *t, const void *data, size_t len, struct hsp_err *err)
{
    HSP_ASSERT(len <= INT_MAX);
    if (len > 0 && BIO_write(t->in, data, (int)len) != (int)len) {
        ERR_clear_error();
        return hsp_err_nomem(err, "TLS input");
    }
    return HSP_OK;
}

enum hsp_status hsp_tls_handshake(struct hsp_tls *t, struct hsp_err *err)
{
    ERR_clear_error();
    int r = SSL_do_handshake(t->ssl);
    if (r == 1) {
        return HSP_OK;
    }
    int e = SSL_get_error(t->ssl, r);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        return HSP_AGAIN;
    }
    return hsp_err_set(err, HSP_EAUTH, 0, "TLS refused (%s): different keys, or not hspmd",
                       tls_reason());
}

enum hsp_net_role hsp_tls_role(const struct hsp_tls *t)
{
    return SSL_is_init_finished(t->ssl) ? t->role : HSP_ROLE_NONE;
}

/* The first message ends with a code made with the key (RFC 8446, 4.2.11.2: the binder). OpenSSL
 * takes the session up when that is right. */
bool hsp_tls_proved(const struct hsp_tls *t)
{
    return SSL_session_reused(t->ssl) == 1;
}

enum hsp_net_role hsp_tls_claimed(const struct hsp_tls *t)
{
    return SSL_is_init_finished(t->ssl) ? HSP_ROLE_NONE : t->role;
}

bool hsp_tls_more(const struct hsp_tls *t)
{
    return BIO_ctrl_pending(t->in) > 0 || SSL_has_pending(t->ssl) == 1;
}

enum hsp_status hsp_tls_read(struct hsp_tls *t, void *buf, size_t cap, size_t *ret_n,
                             struct hsp_err *err)
{
    no_old_errors();
    int r = SSL_read(t->ssl, buf, cap < INT_MAX ? (int)cap : INT_MAX);
    if (r > 0) {
        *ret_n = (size_t)r;
        return HSP_OK;
    }
    int e = SSL_get_error(t->ssl, r);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        return HSP_AGAIN;
    }
    if (e == SSL_ERROR_ZERO_RETURN) {
        return hsp_err_set(err, HSP_ECLOSED, 0, "closed by the peer");
    }
    return hsp_err_set(err, HSP_EPROTO, 0, "TLS broken (%s)", tls_reason());
}

enum hsp_status hsp_tls_write(struct hsp_tls *t, const void *data, size_t len, struct hsp_err *err)
{
    const uint8_t *p = data;
    while (len > 0) {
        int n = len < (1 << 20) ? (int)len : 1 << 20;
        no_old_errors();
        if (t->written >= t->rekey_bytes) { /* goes out in front of the next written bytes */
            if (SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
                return hsp_err_set(err, HSP_EPROTO, 0, "TLS key update (%s)", tls_reason());
            }
            t->written = 0;
        }
        int r = SSL_write(t->ssl, p, n);
        if (r <= 0) { /* a memory BIO never blocks */
            return hsp_err_set(err, HSP_EPROTO, 0, "TLS broken (%s)", tls_reason());
        }
        p += r;
        len -= (size_t)r;
        t->written += (uint64_t)r + RECORD_MIN;
    }
    return HSP_OK;
}

void hsp_tls_end(struct hsp_tls *t)
{
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl); /* only to write the alert; the answer is not waited for */
    ERR_clear_error();
}

size_t hsp_tls_pending(const struct hsp_tls *t)
{
    return BIO_ctrl_pending(t->out);
}

size_t hsp_tls_output(struct hsp_tls *t, void *buf, size_t cap)
{
    int n = BIO_read(t->out, buf, cap < INT_MAX ? (int)cap : INT_MAX);
    return n > 0 ? (size_t)n : 0;
}
