#include "tests/unit/comm/comm_suite.h"
#include "tests/unit/comm/mesh_world.h"

static struct mesh_world world;

static void open_local(uint32_t n, struct hsp_comm **ret)
{
    world_open(&world, n, WORLD_UNIX);
    world_connect(&world, 1, ret);
}

static void done(void)
{
    world_close(&world);
}

int main(void)
{
    static const struct suite_transport t = {.name = "mesh unix", .open = open_local, .done = done};
    return suite_run(&t);
}
