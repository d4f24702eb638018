COMM_SUITE = tests/unit/worker/comm/comm_suite.c tests/unit/worker/comm/comm_suite.h
MESH_WORLD = tests/unit/worker/comm/mesh_world.c tests/unit/worker/comm/mesh_world.h
MESH_SUITE = tests/unit/worker/comm/mesh_suite.c tests/unit/worker/comm/mesh_suite.h $(COMM_SUITE) $(MESH_WORLD)
COMM_TEST_LIBS = $(TEST_LIBS) $(COMM_LIBS) $(BASE_LIBS)

NCCL_WORLD = tests/unit/worker/comm/nccl_world.c tests/unit/worker/comm/nccl_world.h
NCCL_TEST_LIBS = $(TEST_LIBS) $(NCCL_LIBS) $(BACKEND_LIBS) $(BASE_LIBS)

comm_tests = \
  tests/unit/worker/comm/loop_comm_test \
  tests/unit/worker/comm/mesh_test \
  tests/unit/worker/comm/mesh_crowd_test \
  tests/unit/worker/comm/mesh_deaf_test \
  tests/unit/worker/comm/mesh_fail_test \
  tests/unit/worker/comm/mesh_local_test \
  tests/unit/worker/comm/mesh_mixed_test \
  tests/unit/worker/comm/mesh_nap_test \
  tests/unit/worker/comm/mesh_seg_test \
  tests/unit/worker/comm/mesh_shm_test \
  tests/unit/worker/comm/mesh_tls_test \
  tests/unit/worker/comm/mesh_wire_test \
  tests/unit/worker/comm/nccl_comm_test \
  tests/unit/worker/comm/nccl_device_test \
  tests/unit/worker/comm/nccl_kill_test \
  tests/unit/worker/comm/nccl_lib_test \
  tests/unit/worker/comm/nccl_link_test \
  tests/unit/worker/comm/nccl_need_test \
  tests/unit/worker/comm/runs_test
if HAVE_NCCL_H
comm_tests += tests/unit/worker/comm/nccl_abi_test
endif
check_PROGRAMS += $(comm_tests) tests/unit/worker/comm/real_nccl
TESTS += $(comm_tests)

tests_unit_worker_comm_loop_comm_test_SOURCES = tests/unit/worker/comm/loop_comm_test.c $(COMM_SUITE)
tests_unit_worker_comm_loop_comm_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_test_SOURCES = tests/unit/worker/comm/mesh_test.c $(MESH_SUITE)
tests_unit_worker_comm_mesh_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_crowd_test_SOURCES = tests/unit/worker/comm/mesh_crowd_test.c $(MESH_WORLD)
tests_unit_worker_comm_mesh_crowd_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_deaf_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=accept4
tests_unit_worker_comm_mesh_deaf_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_fail_test_SOURCES = tests/unit/worker/comm/mesh_fail_test.c $(MESH_WORLD)
tests_unit_worker_comm_mesh_fail_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_local_test_SOURCES = tests/unit/worker/comm/mesh_local_test.c $(MESH_SUITE)
tests_unit_worker_comm_mesh_local_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_mixed_test_SOURCES = tests/unit/worker/comm/mesh_mixed_test.c $(MESH_SUITE)
tests_unit_worker_comm_mesh_mixed_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_nap_test_SOURCES = tests/unit/worker/comm/mesh_nap_test.c $(MESH_WORLD)
tests_unit_worker_comm_mesh_nap_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_seg_test_SOURCES = tests/unit/worker/comm/mesh_seg_test.c $(MESH_WORLD)
tests_unit_worker_comm_mesh_seg_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_shm_test_SOURCES = tests/unit/worker/comm/mesh_shm_test.c $(MESH_SUITE)
tests_unit_worker_comm_mesh_shm_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_tls_test_SOURCES = tests/unit/worker/comm/mesh_tls_test.c $(MESH_SUITE)
tests_unit_worker_comm_mesh_tls_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_mesh_wire_test_SOURCES = tests/unit/worker/comm/mesh_wire_test.c $(MESH_WORLD)
tests_unit_worker_comm_mesh_wire_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_runs_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_worker_comm_nccl_comm_test_SOURCES = tests/unit/worker/comm/nccl_comm_test.c $(COMM_SUITE) $(NCCL_WORLD)
tests_unit_worker_comm_nccl_comm_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_kill_test_SOURCES = tests/unit/worker/comm/nccl_kill_test.c $(NCCL_WORLD)
tests_unit_worker_comm_nccl_kill_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_lib_test_SOURCES = tests/unit/worker/comm/nccl_lib_test.c $(NCCL_WORLD)
tests_unit_worker_comm_nccl_lib_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_link_test_SOURCES = tests/unit/worker/comm/nccl_link_test.c $(NCCL_WORLD)
tests_unit_worker_comm_nccl_link_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_abi_test_SOURCES = tests/unit/worker/comm/nccl_abi_test.c
tests_unit_worker_comm_nccl_abi_test_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_unit_worker_comm_nccl_abi_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_real_nccl_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_need_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_worker_comm_nccl_device_test_SOURCES = tests/unit/worker/comm/nccl_device_test.c $(NCCL_WORLD) \
  tests/unit/worker/cuda/stand_in.c tests/unit/worker/cuda/stand_in.h
tests_unit_worker_comm_nccl_device_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_worker_comm_nccl_device_test_LDADD = tests/lib/libfakehost.a tests/lib/libfakecuda.a \
  $(TEST_LIBS) $(NCCL_LIBS) $(BACKEND_LIBS) $(BASE_LIBS)
