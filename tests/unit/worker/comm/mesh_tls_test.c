#include "tests/unit/worker/comm/mesh_suite.h"

HSP_TEST_FILE(mesh_tls_test)
{
    return mesh_suite_run("mesh tcp+tls", WORLD_TLS);
}
