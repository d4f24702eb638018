#include "tests/unit/worker/comm/mesh_world.h"

#include <pthread.h>

#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_start.h"

static const char *const names[WORLD_MAX] = {"a/0", "a/1", "b/0", "b/1",
                                             "c/0", "c/1", "d/0", "d/1"};

enum hsp_mesh_transport world_transport(enum world_kind kind, uint32_t rank)
{
    if (kind == WORLD_MIXED) {
        return rank % 2 == 0 ? HSP_MESH_AUTO : HSP_MESH_TCP;
    }
    return kind == WORLD_SHM ? HSP_MESH_SHM : kind == WORLD_UNIX ? HSP_MESH_UNIX : HSP_MESH_TCP;
}

void world_open(struct mesh_world *w, uint32_t n, enum world_kind kind)
{
    struct hsp_err err;
    *w = (struct mesh_world){.n = n, .kind = kind};
    for (uint32_t i = 0; i < n; i++) {
        assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, world_transport(kind, i),
                                         &w->listener[i], &err),
                  &err);
        w->peer[i] = (struct hsp_mesh_peer){.name = names[i],
                                            .address = hsp_mesh_listener_address(w->listener[i])};
    }
}

void world_close(struct mesh_world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        hsp_mesh_listener_close(w->listener[i]);
    }
}

struct hsp_mesh_params world_params(const struct mesh_world *w, uint32_t r, uint64_t epoch)
{
    struct hsp_mesh_params p = {.job = 7,
                                .epoch = epoch,
                                .rank = r,
                                .n = w->n,
                                .peers = w->peer,
                                .timeout_ms = 20000,
                                .cancel_fd = -1,
                                .tls = w->kind == WORLD_TLS};
    memset(p.key, 0x11, sizeof p.key);
    return p;
}

struct one {
    struct hsp_mesh_listener *l;
    const struct hsp_mesh_params *p;
    struct hsp_comm **ret;
    struct hsp_err *err;
};

static void *connect_main(void *arg)
{
    struct one *o = arg;
    *o->ret = NULL;
    o->err->code = HSP_OK;
    (void)hsp_mesh_connect(o->l, o->p, o->ret, o->err); /* the error has the status */
    return NULL;
}

void world_try(struct mesh_world *w, const struct hsp_mesh_params *p, struct hsp_comm **ret,
               struct hsp_err *err)
{
    pthread_t th[WORLD_MAX];
    struct one o[WORLD_MAX];
    for (uint32_t i = 0; i < w->n; i++) {
        o[i] = (struct one){.l = w->listener[i], .p = &p[i], .ret = &ret[i], .err = &err[i]};
        assert_int_equal(pthread_create(&th[i], NULL, connect_main, &o[i]), 0);
    }
    for (uint32_t i = 0; i < w->n; i++) {
        pthread_join(th[i], NULL);
    }
}

void world_connect(struct mesh_world *w, uint64_t epoch, struct hsp_comm **ret)
{
    struct hsp_mesh_params p[WORLD_MAX];
    struct hsp_err err[WORLD_MAX];
    for (uint32_t i = 0; i < w->n; i++) {
        p[i] = world_params(w, i, epoch);
    }
    world_try(w, p, ret, err);
    for (uint32_t i = 0; i < w->n; i++) {
        assert_ok(err[i].code, &err[i]);
        struct hsp_mesh_links l = hsp_mesh_count_links(ret[i]);
        uint32_t even = w->kind == WORLD_MIXED && i % 2 == 0 ? (w->n - 1) / 2 : 0;
        assert_int_equal(l.shm, w->kind == WORLD_SHM ? w->n - 1 : even);
        assert_int_equal(l.local, w->kind == WORLD_UNIX ? w->n - 1 : 0);
        assert_int_equal(l.clear, w->kind == WORLD_TCP     ? w->n - 1
                                  : w->kind == WORLD_MIXED ? w->n - 1 - even
                                                           : 0);
        assert_int_equal(l.tls, w->kind == WORLD_TLS ? w->n - 1 : 0);
    }
}
