#include "tests/unit/worker/comm/mesh_suite.h"

#include "tests/unit/worker/comm/comm_suite.h"

static enum world_kind of_kind;
static struct mesh_world world;

static void open_mesh(uint32_t n, struct hsp_comm **ret)
{
    world_open(&world, n, of_kind);
    world_connect(&world, 1, ret);
}

static void done(void)
{
    world_close(&world);
}

int mesh_suite_run(const char *name, enum world_kind kind)
{
    const struct suite_transport t = {.name = name, .open = open_mesh, .done = done};
    of_kind = kind;
    return suite_run(&t);
}
