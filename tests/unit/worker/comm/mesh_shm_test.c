#include "tests/unit/worker/comm/mesh_suite.h"

HSP_TEST_FILE(mesh_shm_test)
{
    return mesh_suite_run("mesh shm", WORLD_SHM);
}
