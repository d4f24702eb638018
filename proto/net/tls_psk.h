/* Speaks TLS 1.3 with external keys (PSK) over memory: bytes in, bytes out, no socket.
 *
 * Role:      between a connection's bytes and its frames (net.c, frame_client.c). A session proves
 *            which key the client holds: the worker's may join, the admin's may command.
 * Purity:    shell (OpenSSL; randomness). No I/O but reading key files.
 * Threads:   one thread at a time per session; a context is immutable and shared.
 * Ownership: a context outlives its sessions.
 * Bounds:    input is at most one call's bytes; output grows with the bytes written.
 */
#ifndef HSP_TLS_PSK_H
#define HSP_TLS_PSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_NET_KEY      32 /* bytes: the strength of the hash */
#define HSP_TLS_IDENTITY 96 /* bytes of a session's own identity with its NUL */

/* The role of the other end, as far as the connection proves it. */
enum hsp_net_role {
    HSP_ROLE_NONE,
    HSP_ROLE_WORKER, /* TLS with worker.key */
    HSP_ROLE_ADMIN,  /* TLS with admin.key */
    HSP_ROLE_LOCAL,  /* Unix socket: uid, gid and pid are the kernel's word */
    HSP_ROLE_OPEN,   /* clear TCP on loopback (clear_loopback): anybody on this host */
    HSP_ROLE_CHILD,  /* a descriptor handed over */
};
const char *hsp_role_name(enum hsp_net_role r);

struct hsp_net_keys {
    bool have_worker, have_admin;
    uint8_t worker[HSP_NET_KEY], admin[HSP_NET_KEY];
};

/* Reads a key file: 64 hex digits and white space around them (`openssl rand -hex 32`).
 * HSP_ENOENT; HSP_EPERM: others than owner and group may read it; HSP_EPARSE; HSP_EIO. */
enum hsp_status hsp_net_key_load(const char *path, uint8_t ret[HSP_NET_KEY], struct hsp_err *err);

/* Loads those of both that exist; "" or NULL: none. Only a missing file is not an error. */
enum hsp_status hsp_net_keys_load(const char *worker_path, const char *admin_path,
                                  struct hsp_net_keys *ret, struct hsp_err *err);

struct hsp_tls_ctx;
enum hsp_status hsp_tls_ctx_new(const struct hsp_net_keys *keys, struct hsp_tls_ctx **ret,
                                struct hsp_err *err);
struct hsp_tls_ctx *hsp_tls_ctx_free(struct hsp_tls_ctx *c); /* NULL allowed; returns NULL */

struct hsp_tls;
/* A client uses the key of @role, which the context must have (HSP_EINVAL). A server learns the
 * role: @role is ignored. */
enum hsp_status hsp_tls_new(struct hsp_tls_ctx *c, bool server, enum hsp_net_role role,
                            struct hsp_tls **ret, struct hsp_err *err);
/* A session with a key of its own, copied, under a name both ends know: below HSP_TLS_IDENTITY
 * bytes. The keys of the context are not used; the role stays NONE. */
enum hsp_status hsp_tls_new_psk(struct hsp_tls_ctx *c, bool server, const char *identity,
                                const uint8_t key[HSP_NET_KEY], struct hsp_tls **ret,
                                struct hsp_err *err);
/* Changes the sending key after every @bytes written (default 2^36: AES-GCM is good for 2^24.5 full
 * records under one key, RFC 8446 section 5.5). Not 0. */
void hsp_tls_rekey_after(struct hsp_tls *t, uint64_t bytes);
struct hsp_tls *hsp_tls_free(struct hsp_tls *t); /* NULL allowed; returns NULL */

/* Takes received bytes. HSP_ENOMEM. */
enum hsp_status hsp_tls_input(struct hsp_tls *t, const void *data, size_t len, struct hsp_err *err);
/* HSP_OK: done, the role is proven; HSP_AGAIN: more input is needed; HSP_EAUTH: refused. There may
 * be output in each case. */
enum hsp_status hsp_tls_handshake(struct hsp_tls *t, struct hsp_err *err);
/* Of a server whose handshake has failed: WORKER or ADMIN, whose key the client says it holds, and
 * holds another. NONE: it has not come so far. */
enum hsp_net_role hsp_tls_claimed(const struct hsp_tls *t);
/* Of a server: the client holds the key that it named. True from the client's first message on,
 * which a recorder may repeat; the end of the handshake proves more. */
bool hsp_tls_proved(const struct hsp_tls *t);
enum hsp_net_role hsp_tls_role(const struct hsp_tls *t); /* NONE before the handshake is done */
/* Bytes have come that hsp_tls_read has not looked at. */
bool hsp_tls_more(const struct hsp_tls *t);
/* Decrypts up to @cap bytes. HSP_AGAIN: more input is needed; HSP_ECLOSED: the peer ends in order;
 * HSP_EPROTO: broken. */
enum hsp_status hsp_tls_read(struct hsp_tls *t, void *buf, size_t cap, size_t *ret_n,
                             struct hsp_err *err);
/* Encrypts all. HSP_EPROTO, HSP_ENOMEM: the session is broken. */
enum hsp_status hsp_tls_write(struct hsp_tls *t, const void *data, size_t len, struct hsp_err *err);
void hsp_tls_end(struct hsp_tls *t); /* writes the closing alert */
/* Bytes to send to the peer. */
size_t hsp_tls_pending(const struct hsp_tls *t);
size_t hsp_tls_output(struct hsp_tls *t, void *buf, size_t cap);

#endif
