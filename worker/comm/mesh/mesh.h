/* Joins the ranks of one epoch, which are processes, pairwise by shared memory, Unix sockets or
 * TCP.
 *
 * Role:      an executor opens one listener when it starts, and one mesh per epoch it prepares;
 *            several epochs may exist side by side.
 * Threads:   a listener has one thread of its own (it only takes connections), a mesh one I/O
 *            thread. hsp_mesh_connect blocks its caller. The result is a struct hsp_comm.
 * Ownership: a listener outlives the calls of hsp_mesh_connect on it, not the meshes.
 * Trust:     both ends of a connection prove that they hold the epoch key. With `tls` every TCP
 *            connection is TLS 1.3 under a key derived from the epoch key and the hello. Unix
 *            sockets, which only processes of one host can join, and all connections without `tls`
 *            are proven by HMAC-SHA256 over both nonces and the hello; then they carry clear bytes.
 * Bounds:    HSP_MESH_ constants.
 * Silence:   a rank that has no message for a peer on another host sends a beat every second
 *            (mesh_beat.h), so a cut cable is noticed though no connection is reset. */
#ifndef HSP_MESH_H
#define HSP_MESH_H

#include "worker/comm/comm.h"

#define HSP_MESH_MAX_RANKS 1024 /* a full mesh: n - 1 sockets per rank */
#define HSP_MESH_KEY_BYTES 32
#define HSP_MESH_ADDRESS   256 /* bytes of an address with its NUL */
#define HSP_MESH_BUFFER \
    ((size_t)64 << 20) /* arrived and not asked for, per peer; above, its \
                          connection is read only while a receive waits for it */

struct hsp_mesh_listener;

/* How this process talks to processes of the same host. A pair of which one rank says TCP uses
 * TCP. */
enum hsp_mesh_transport {
    HSP_MESH_AUTO, /* by shared memory; by Unix sockets where memory cannot be shared */
    HSP_MESH_SHM,  /* by shared memory, or not at all */
    HSP_MESH_TCP,  /* as with ranks of other hosts */
    HSP_MESH_UNIX, /* by Unix sockets, as AUTO without shared memory */
};

struct hsp_mesh_peer {
    const char *name;    /* for messages: "a/0" */
    const char *address; /* of its listener */
    bool apart;          /* both ends say that they want no connection */
};

/* The loss of a peer, as one rank saw it and told the others. */
struct hsp_mesh_loss {
    uint32_t rank; /* lost */
    uint32_t by;   /* saw the loss: the broken connection is between the two */
    bool silent;   /* nothing comes from it any more; else the connection has ended */
};

struct hsp_mesh_params {
    uint64_t job,
        epoch; /* a number of the job (or a hash of its name); epochs of a job only grow */
    uint8_t key[HSP_MESH_KEY_BYTES];
    uint32_t rank, n;
    const struct hsp_mesh_peer *peers; /* n, borrowed for the call */
    uint64_t timeout_ms;               /* for the whole mesh to stand */
    int cancel_fd;                     /* an eventfd; readable: give up. -1: none */
    bool tls;                          /* connections by TCP are encrypted; equal on all ranks */
    /* A peer by TCP from which nothing comes for so long is lost, and a peer that does not answer a
     * call for so long cannot be reached. 0: both are waited for. */
    uint32_t silent_ms;
    /* A peer broke: called once, from the I/O thread, at about the time the operations fail; NULL:
     * not called. The function may not call into the mesh. close waits for it. */
    void (*on_peer_lost)(void *ctx, const struct hsp_mesh_loss *loss, const char *why);
    void *ctx;
    struct hsp_mesh_loss *ret_loss; /* of a mesh that is not made (HSP_EPEER); NULL: not told */
};

struct hsp_mesh_links { /* of one rank to its peers */
    uint32_t shm;       /* through shared memory */
    uint32_t local;     /* over Unix sockets */
    uint32_t clear;     /* over TCP, not encrypted */
    uint32_t tls;       /* over TCP with TLS */
};

#endif
