#include "tests/unit/comm/comm_suite.h"
#include "tests/unit/comm/mesh_world.h"

static struct mesh_world world;

static void open_mixed(uint32_t n, struct hsp_comm **ret)
{
    world_open(&world, n, WORLD_MIXED);
    world_connect(&world, 1, ret);
}

static void done(void)
{
    world_close(&world);
}

int main(void)
{
    static const struct suite_transport t = {
        .name = "mesh mixed", .open = open_mixed, .done = done};
    return suite_run(&t);
}
