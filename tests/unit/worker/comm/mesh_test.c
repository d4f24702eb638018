#include "tests/unit/worker/comm/mesh_suite.h"

HSP_TEST_FILE(mesh_test)
{
    return mesh_suite_run("mesh tcp", WORLD_TCP);
}
