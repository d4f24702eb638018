/* Runs the conformance suite over meshes of one kind. */
#ifndef HSP_MESH_SUITE_H
#define HSP_MESH_SUITE_H
#include "tests/unit/worker/comm/mesh_world.h"

/* As suite_run. */
int mesh_suite_run(const char *name, enum world_kind kind);

#endif
