#include "tests/unit/worker/comm/mesh_suite.h"

int main(void)
{
    return mesh_suite_run("mesh tcp+tls", WORLD_TLS);
}
