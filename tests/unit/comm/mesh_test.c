#include "tests/unit/comm/comm_suite.h"
#include "tests/unit/comm/mesh_world.h"

static struct mesh_world world;

static void open_tcp(uint32_t n, struct hsp_comm **ret)
{
    world_open(&world, n);
    world_connect(&world, 1, true, ret);
}

static void open_local(uint32_t n, struct hsp_comm **ret)
{
    world_open(&world, n);
    world_connect(&world, 1, false, ret);
}

static void done(void)
{
    world_close(&world);
}

int main(void)
{
    static const struct suite_transport tcp = {.name = "mesh tcp", .open = open_tcp, .done = done},
                                        local = {
                                            .name = "mesh unix", .open = open_local, .done = done};
    int a = suite_run(&tcp), b = suite_run(&local);
    return a + b;
}
