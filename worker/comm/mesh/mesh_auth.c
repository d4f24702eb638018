/* Computes the proofs of the handshake: HMAC-SHA256 under the epoch key over the side's label, the
 * whole hello (job, epoch, both ranks, the client's nonce) and the server's nonce. Both nonces are
 * fresh, so a recorded handshake proves nothing. The labels keep one side's proof from serving as
 * the other's.
 *
 * The secret of a TLS connection is the HMAC under a third label and the hello alone (one block of
 * HKDF-Expand, RFC 5869). Another epoch, pair, number of ranks or wish for TLS gives another
 * secret, so nobody can change the hello on its way. TLS 1.3 adds fresh keys of both sides. */
#include "worker/comm/mesh/mesh_auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_impl.h"

#define LABEL 8

bool hsp_mesh_nonce(uint8_t ret[MESH_NONCE])
{
    return getrandom(ret, MESH_NONCE, 0) == MESH_NONCE;
}

bool hsp_mesh_hello_make(const struct mesh_hello *h, uint8_t ret[MESH_HELLO])
{
    hsp_le_put(ret, MESH_MAGIC, 4);
    hsp_le_put(ret + 4, MESH_VERSION, 4);
    hsp_le_put(ret + 8, h->job, 8);
    hsp_le_put(ret + 16, h->epoch, 8);
    hsp_le_put(ret + 24, h->from, 4);
    hsp_le_put(ret + 28, h->to, 4);
    hsp_le_put(ret + 32, h->n, 4);
    hsp_le_put(ret + 36, h->tls ? 1 : h->shares ? 2 : 0, 4);
    return hsp_mesh_nonce(ret + 40);
}

bool hsp_mesh_hello_read(const uint8_t raw[MESH_HELLO], struct mesh_hello *ret)
{
    *ret = (struct mesh_hello){
        .job = hsp_le_get(raw + 8, 8),
        .epoch = hsp_le_get(raw + 16, 8),
        .from = (uint32_t)hsp_le_get(raw + 24, 4),
        .to = (uint32_t)hsp_le_get(raw + 28, 4),
        .n = (uint32_t)hsp_le_get(raw + 32, 4),
        .tls = hsp_le_get(raw + 36, 4) == 1,
        .shares = hsp_le_get(raw + 36, 4) == 2,
    };
    return hsp_le_get(raw, 4) == MESH_MAGIC && hsp_le_get(raw + 4, 4) == MESH_VERSION &&
           hsp_le_get(raw + 36, 4) <= 2 && ret->from < ret->to && ret->to < ret->n &&
           ret->n <= HSP_MESH_MAX_RANKS;
}

bool hsp_mesh_proof(const uint8_t key[HSP_MESH_KEY_BYTES], bool server,
                    const uint8_t hello[MESH_HELLO], const uint8_t nonce[MESH_NONCE],
                    uint8_t ret[MESH_PROOF])
{
    uint8_t text[LABEL + MESH_HELLO + MESH_NONCE];
    unsigned len = 0;
    memcpy(text, server ? "hspm srv" : "hspm cli", LABEL);
    memcpy(text + LABEL, hello, MESH_HELLO);
    memcpy(text + LABEL + MESH_HELLO, nonce, MESH_NONCE);
    return HMAC(EVP_sha256(), key, HSP_MESH_KEY_BYTES, text, sizeof text, ret, &len) != NULL &&
           len == MESH_PROOF;
}

bool hsp_mesh_secret(const uint8_t key[HSP_MESH_KEY_BYTES], const uint8_t hello[MESH_HELLO],
                     uint8_t ret[MESH_PROOF])
{
    uint8_t text[LABEL + MESH_HELLO];
    unsigned len = 0;
    memcpy(text, "hspm tls", LABEL);
    memcpy(text + LABEL, hello, MESH_HELLO);
    return HMAC(EVP_sha256(), key, HSP_MESH_KEY_BYTES, text, sizeof text, ret, &len) != NULL &&
           len == MESH_PROOF;
}

bool hsp_mesh_proof_equal(const uint8_t a[MESH_PROOF], const uint8_t b[MESH_PROOF])
{
    return CRYPTO_memcmp(a, b, MESH_PROOF) == 0;
}
