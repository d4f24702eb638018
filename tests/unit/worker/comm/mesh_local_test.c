#include "tests/unit/worker/comm/mesh_suite.h"

int main(void)
{
    return mesh_suite_run("mesh unix", WORLD_UNIX);
}
