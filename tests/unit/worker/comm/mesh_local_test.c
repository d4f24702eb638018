#include "tests/unit/worker/comm/mesh_suite.h"

HSP_TEST_FILE(mesh_local_test)
{
    return mesh_suite_run("mesh unix", WORLD_UNIX);
}
