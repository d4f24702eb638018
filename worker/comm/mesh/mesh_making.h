/* Holds a mesh that is being made, with the steps that both sides of a pair share.
 *
 * Role:    mesh_join.c has the loop over all pairs, mesh_call.c the pairs that this rank calls,
 *          mesh_answer.c the pairs that call. No other file includes this header.
 * Threads: the thread of hsp_mesh_connect.
 */
#ifndef HSP_MESH_MAKING_H
#define HSP_MESH_MAKING_H

#include <poll.h>

#include "worker/comm/mesh/mesh_impl.h"

struct mesh_shm;

#define MESH_PAUSE_MS    10   /* between attempts, the first time */
#define MESH_READY       0x6b /* the last byte of a handshake; */
#define MESH_READY_SHARE 0x6c /* with a segment, both ways */

enum mesh_stage {
    MESH_IDLE,       /* client: to be called (again) at pause_until */
    MESH_CONNECTING, /* client: by the kernel */
    MESH_CALLED,     /* client: hello sent, waits for the challenge; long if the server is behind */
    MESH_PROVING,    /* client: proof sent, waits for ready */
    MESH_UP,
    MESH_APART, /* no connection is wanted */
};

struct mesh_pair {
    enum mesh_stage stage;
    int fd;               /* -1: none */
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* MESH_UP: NULL: bytes go by the socket */
    uint64_t pause_until, pause_ms;
    uint64_t deaf_ms; /* client: when its host was first called without an answer; 0: it answers */
    bool by_tcp;      /* call by TCP: the local socket did not work */
    bool local;       /* MESH_UP: by the local socket */
    bool no_share;    /* there was no memory to share */
    bool ended;  /* MESH_UP: the peer has closed; its last words are read when the mesh stands */
    bool failed; /* an attempt has failed */
    int why;     /* its errno; 0: closed by the peer */
    uint8_t hello[MESH_HELLO];
    size_t have;
    uint8_t in[MESH_NONCE + MESH_PROOF];
};

/* A caller that has been challenged. */
struct mesh_caller {
    struct mesh_arrival a;
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* not NULL: proven, the segment is still to come */
    uint8_t nonce[MESH_NONCE], proof[MESH_PROOF];
    size_t have;
    uint64_t until_ms;
};

struct mesh_making {
    struct hsp_mesh_listener *l;
    const struct hsp_mesh_params *p;
    struct mesh_join join;
    struct hsp_tls_ctx *ctx; /* NULL: without TLS */
    struct seg seg;          /* head NULL: none */
    uint64_t deadline;
    struct mesh_pair *pair; /* n */
    uint32_t n_wanted, n_up;
    struct mesh_caller *caller; /* cap_callers */
    uint32_t n_callers, cap_callers, n_refused;
    struct pollfd *poll; /* 2 + n + cap_callers */
};

static inline const char *mesh_name_of(const struct mesh_making *m, uint32_t r)
{
    return m->p->peers[r].name;
}

/* Sends a few bytes, all at once or not at all. */
bool hsp_mesh_send_all(int fd, const void *p, size_t n);
/* Reads up to @want bytes in all. 1: complete; 0: not yet; -1: gone (errno, 0: closed). */
int hsp_mesh_read_more(int fd, uint8_t *buf, size_t *have, size_t want);
/* Names rank @r as the reason why the mesh cannot be made. @silent: it does not answer. */
void hsp_mesh_blame(const struct mesh_making *m, uint32_t r, bool silent);
/* Notes that the pair stands; takes the descriptor, @tls and @shm over. */
void hsp_mesh_pair_up(struct mesh_making *m, uint32_t r, int fd, bool local, struct mesh_tls *tls,
                      struct mesh_shm *shm);

#endif
