/* Encrypts one connection of a mesh: sessions of proto/net/tls_psk.h, fed from and written to a
 * socket.
 *
 * The happy path: a chunk of a message is encrypted into `out`, which is sent until it is empty;
 * then comes the next chunk. The other way, bytes of the socket go into the session, from where the
 * I/O thread decrypts straight into the receive that waits for them.
 *
 * Invariant (T1): a session is touched under `lock`; `out` belongs to the one writer of the
 * link. */
#include "worker/comm/mesh/mesh_tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/net/tls_psk.h"
#include "worker/comm/mesh/mesh_auth.h"
#include "worker/comm/mesh/mesh_impl.h"

#define RECORD ((size_t)16 << 10) /* plain bytes of a full record */
#define CHUNK  (4 * RECORD)       /* encrypted at once; the reader waits for the lock meanwhile */
/* With the header, tag and type of each record and of a change of keys (64 bytes are plenty). */
#define OUT_BYTES (CHUNK + 8 * 64)
/* Bytes taken in at once; they stay in the session while a link is held. */
#define FILL ((size_t)64 << 10)

struct mesh_tls {
    pthread_mutex_t lock;
    struct hsp_tls *tls;
    size_t out_pos, out_have; /* encrypted, to be sent */
    uint8_t out[OUT_BYTES];
};

enum hsp_status hsp_mesh_tls_new(struct hsp_tls_ctx *ctx, bool server,
                                 const uint8_t key[HSP_MESH_KEY_BYTES],
                                 const uint8_t hello[MESH_HELLO], struct mesh_tls **ret,
                                 struct hsp_err *err)
{
    struct mesh_hello h;
    uint8_t secret[MESH_PROOF];
    char identity[HSP_TLS_IDENTITY];
    if (!hsp_mesh_hello_read(hello, &h) || !hsp_mesh_secret(key, hello, secret)) {
        return hsp_err_set(err, HSP_EIO, 0, "cannot compute the secret of a connection");
    }
    struct mesh_tls *t = malloc(sizeof *t);
    if (t == NULL) {
        return hsp_err_nomem(err, "TLS");
    }
    (void)snprintf(identity, sizeof identity, "hspmd-mesh/%llu/%llu/%u-%u",
                   (unsigned long long)h.job, (unsigned long long)h.epoch, h.from, h.to);
    t->out_pos = t->out_have = 0;
    enum hsp_status st = hsp_tls_new_psk(ctx, server, identity, secret, &t->tls, err);
    OPENSSL_cleanse(secret, sizeof secret);
    if (st != HSP_OK) {
        free(t);
        return st;
    }
    pthread_mutex_init(&t->lock, NULL);
    *ret = t;
    return HSP_OK;
}

struct mesh_tls *hsp_mesh_tls_free(struct mesh_tls *t)
{
    if (t != NULL) {
        (void)hsp_tls_free(t->tls);
        pthread_mutex_destroy(&t->lock);
        free(t);
    }
    return NULL;
}

/* Sends the encrypted bytes. 1: all; 0: later; -errno. */
static int flush(struct mesh_tls *t, int fd)
{
    while (t->out_pos < t->out_have) {
        ssize_t n =
            send(fd, t->out + t->out_pos, t->out_have - t->out_pos, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        t->out_pos += (size_t)n;
    }
    t->out_pos = t->out_have = 0;
    return 1;
}

/* Fetches the bytes that the session has to send; `out` was empty. */
static void collect(struct mesh_tls *t)
{
    t->out_have = hsp_tls_output(t->tls, t->out, OUT_BYTES);
}

enum hsp_status hsp_mesh_tls_shake(struct mesh_tls *t, int fd, struct hsp_err *err)
{
    enum hsp_status st = hsp_tls_handshake(t->tls, err);
    collect(t); /* on a refusal too: the alert says so to the peer */
    /* A fresh socket has room for a handshake; if not, the socket is broken. */
    bool sent = flush(t, fd) > 0 && hsp_tls_pending(t->tls) == 0;
    return st != HSP_EAUTH && !sent ? hsp_err_set(err, HSP_EIO, 0, "no room for a handshake") : st;
}

ssize_t hsp_mesh_tls_fill(struct mesh_tls *t, int fd)
{
    uint8_t in[FILL];
    ssize_t n = recv(fd, in, FILL, 0);
    if (n < 0) {
        return -errno;
    }
    if (n > 0) {
        pthread_mutex_lock(&t->lock);
        enum hsp_status st = hsp_tls_input(t->tls, in, (size_t)n, NULL);
        pthread_mutex_unlock(&t->lock);
        n = st == HSP_OK ? n : -ENOMEM;
    }
    return n;
}

enum hsp_status hsp_mesh_tls_read(struct mesh_tls *t, void *buf, size_t cap, size_t *ret_n,
                                  struct hsp_err *err)
{
    pthread_mutex_lock(&t->lock);
    enum hsp_status st = hsp_tls_read(t->tls, buf, cap, ret_n, err);
    pthread_mutex_unlock(&t->lock);
    return st;
}

static bool encrypt(struct mesh_tls *t, const void *p, size_t n)
{
    pthread_mutex_lock(&t->lock);
    bool ok = hsp_tls_write(t->tls, p, n, NULL) == HSP_OK;
    collect(t);
    ok = ok && hsp_tls_pending(t->tls) == 0;
    pthread_mutex_unlock(&t->lock);
    return ok;
}

/* Encrypts the next chunk of a message; returns its plain bytes, 0: the session is broken. */
static size_t next_chunk(struct mesh_tls *t, const struct mesh_out *o)
{
    size_t done = o->sent > MESH_HEADER ? o->sent - MESH_HEADER : 0, rest = o->bytes - done, n;
    uint8_t stage[CHUNK];
    if (o->sent <
        MESH_HEADER) { /* header and first bytes together: a short message is one record */
        n = rest < RECORD - MESH_HEADER ? rest : RECORD - MESH_HEADER;
        memcpy(stage, o->head, MESH_HEADER);
        if (n > 0) {
            hsp_runs_gather(&o->data, 0, stage + MESH_HEADER, n);
        }
        n += MESH_HEADER;
        return encrypt(t, stage, n) ? n : 0;
    }
    const uint8_t *from = hsp_runs_piece(&o->data, done, stage, CHUNK, &n);
    n = n < CHUNK ? n : CHUNK;
    return encrypt(t, from, n) ? n : 0;
}

int hsp_mesh_tls_write_some(struct mesh_tls *t, int fd, struct mesh_out *o, size_t most)
{
    for (;;) {
        int r = flush(t, fd);
        if (r <= 0) {
            return r;
        }
        if (o->sent == MESH_HEADER + o->bytes) {
            return 1;
        }
        if (most == 0) {
            return 0;
        }
        size_t n = next_chunk(t, o);
        if (n == 0) {
            /* Nothing can follow in this stream; both readers see its end. */
            (void)shutdown(fd, SHUT_RDWR);
            return -EIO;
        }
        o->sent += n;
        most -= n < most ? n : most;
    }
}

bool hsp_mesh_tls_say(struct mesh_tls *t, int fd, const void *p, size_t n)
{
    return t->out_have == 0 && encrypt(t, p, n) && flush(t, fd) > 0;
}
