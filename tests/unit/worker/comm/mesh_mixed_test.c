#include "tests/unit/worker/comm/mesh_suite.h"

HSP_TEST_FILE(mesh_mixed_test)
{
    return mesh_suite_run("mesh mixed", WORLD_MIXED);
}
