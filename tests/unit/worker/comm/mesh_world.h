/* Meshes of n ranks inside the test's process. */
#ifndef HSP_MESH_WORLD_H
#define HSP_MESH_WORLD_H
#include "tests/lib/testlib.h"
#include "worker/comm/mesh/mesh.h"

#define WORLD_MAX 8

enum world_kind {
    WORLD_SHM,
    WORLD_UNIX,
    WORLD_TCP,
    WORLD_TLS,
    WORLD_KINDS,
    WORLD_MIXED = WORLD_KINDS, /* even ranks share memory; odd ones have TCP only */
};
enum hsp_mesh_transport world_transport(enum world_kind kind, uint32_t rank);

struct mesh_world {
    uint32_t n;
    enum world_kind kind;
    struct hsp_mesh_listener *listener[WORLD_MAX];
    struct hsp_mesh_peer peer[WORLD_MAX];
};

/* n listeners on loopback. */
void world_open(struct mesh_world *w, uint32_t n, enum world_kind kind);
void world_close(struct mesh_world *w);

/* Parameters of rank @r: job 7, key of 0x11 bytes, 20 s. */
struct hsp_mesh_params world_params(const struct mesh_world *w, uint32_t r, uint64_t epoch);

/* Connects all ranks, each in a thread; fails the test on error, and when a link is of another
 * kind. */
void world_connect(struct mesh_world *w, uint64_t epoch, struct hsp_comm **ret);

/* The same with parameters and results per rank. */
void world_try(struct mesh_world *w, const struct hsp_mesh_params *p, struct hsp_comm **ret,
               struct hsp_err *err);

#endif
