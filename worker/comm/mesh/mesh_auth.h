/* Makes and checks the hello and the proofs by which two ranks show each other the epoch key.
 *
 * Purity: shell (randomness for nonces); else a function of its arguments.
 */
#ifndef HSP_MESH_AUTH_H
#define HSP_MESH_AUTH_H
#include "worker/comm/mesh/mesh_impl.h"

/* Writes a hello with a fresh nonce. False without randomness. */
bool hsp_mesh_hello_make(const struct mesh_hello *h, uint8_t ret[MESH_HELLO]);
/* Returns false if it is no hello of this version, or its ranks are out of range. */
bool hsp_mesh_hello_read(const uint8_t raw[MESH_HELLO], struct mesh_hello *ret);
/* Returns false without randomness. */
bool hsp_mesh_nonce(uint8_t ret[MESH_NONCE]);
/* The answer of the server (or the client) to this hello and this nonce of the server. */
bool hsp_mesh_proof(const uint8_t key[HSP_MESH_KEY_BYTES], bool server,
                    const uint8_t hello[MESH_HELLO], const uint8_t nonce[MESH_NONCE],
                    uint8_t ret[MESH_PROOF]);
/* The secret of a TLS connection that begins with this hello. */
bool hsp_mesh_secret(const uint8_t key[HSP_MESH_KEY_BYTES], const uint8_t hello[MESH_HELLO],
                     uint8_t ret[MESH_PROOF]);
/* Compares in constant time. */
bool hsp_mesh_proof_equal(const uint8_t a[MESH_PROOF], const uint8_t b[MESH_PROOF]);

#endif
