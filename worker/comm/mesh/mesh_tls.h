/* Encrypts one connection of a mesh: feeds its TLS session from the socket, and writes from it. */
#ifndef HSP_MESH_TLS_H
#define HSP_MESH_TLS_H
#include "worker/comm/mesh/mesh_impl.h"

/* @key: the epoch's. Both ends give the hello of the connection. */
enum hsp_status hsp_mesh_tls_new(struct hsp_tls_ctx *ctx, bool server,
                                 const uint8_t key[HSP_MESH_KEY_BYTES],
                                 const uint8_t hello[MESH_HELLO], struct mesh_tls **ret,
                                 struct hsp_err *err);
struct mesh_tls *hsp_mesh_tls_free(struct mesh_tls *t); /* NULL allowed; returns NULL */
/* Goes on with the handshake. HSP_OK: both hold the key; HSP_AGAIN: waits for the peer; HSP_EAUTH;
 * HSP_EIO: the socket did not take the answer. */
enum hsp_status hsp_mesh_tls_shake(struct mesh_tls *t, int fd, struct hsp_err *err);
/* Takes in the bytes of the socket. > 0: bytes; 0: its end; -errno. */
ssize_t hsp_mesh_tls_fill(struct mesh_tls *t, int fd);
/* Decrypts up to @cap of the bytes taken in. HSP_AGAIN: no more; else the stream is broken. */
enum hsp_status hsp_mesh_tls_read(struct mesh_tls *t, void *buf, size_t cap, size_t *ret_n,
                                  struct hsp_err *err);
/* As hsp_mesh_write_some. */
int hsp_mesh_tls_write_some(struct mesh_tls *t, int fd, struct mesh_out *o, size_t most);
/* Sends a few bytes, all at once or not at all. */
bool hsp_mesh_tls_say(struct mesh_tls *t, int fd, const void *p, size_t n);

#endif
