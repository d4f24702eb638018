COMM_SUITE = tests/unit/comm/comm_suite.c tests/unit/comm/comm_suite.h
MESH_WORLD = tests/unit/comm/mesh_world.c tests/unit/comm/mesh_world.h
MESH_SUITE = tests/unit/comm/mesh_suite.c tests/unit/comm/mesh_suite.h $(COMM_SUITE) $(MESH_WORLD)
COMM_TEST_LIBS = $(TEST_LIBS) $(COMM_LIBS) $(BASE_LIBS)

NCCL_WORLD = tests/unit/comm/nccl_world.c tests/unit/comm/nccl_world.h
NCCL_TEST_LIBS = $(TEST_LIBS) $(NCCL_LIBS) $(BACKEND_LIBS) $(BASE_LIBS)

comm_tests = \
  tests/unit/comm/loopcomm_test \
  tests/unit/comm/mesh_test \
  tests/unit/comm/meshcrowd_test \
  tests/unit/comm/meshdeaf_test \
  tests/unit/comm/meshfail_test \
  tests/unit/comm/meshlocal_test \
  tests/unit/comm/meshmixed_test \
  tests/unit/comm/meshnap_test \
  tests/unit/comm/meshseg_test \
  tests/unit/comm/meshshm_test \
  tests/unit/comm/meshtls_test \
  tests/unit/comm/meshwire_test \
  tests/unit/comm/ncclcomm_test \
  tests/unit/comm/nccldevice_test \
  tests/unit/comm/ncclkill_test \
  tests/unit/comm/nccllib_test \
  tests/unit/comm/nccllink_test \
  tests/unit/comm/ncclneed_test \
  tests/unit/comm/runs_test
if HAVE_NCCL_H
comm_tests += tests/unit/comm/ncclabi_test
endif
check_PROGRAMS += $(comm_tests) tests/unit/comm/realnccl
TESTS += $(comm_tests)

tests_unit_comm_loopcomm_test_SOURCES = tests/unit/comm/loopcomm_test.c $(COMM_SUITE)
tests_unit_comm_loopcomm_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_mesh_test_SOURCES = tests/unit/comm/mesh_test.c $(MESH_SUITE)
tests_unit_comm_mesh_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshcrowd_test_SOURCES = tests/unit/comm/meshcrowd_test.c $(MESH_WORLD)
tests_unit_comm_meshcrowd_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshdeaf_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=accept4
tests_unit_comm_meshdeaf_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshfail_test_SOURCES = tests/unit/comm/meshfail_test.c $(MESH_WORLD)
tests_unit_comm_meshfail_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshlocal_test_SOURCES = tests/unit/comm/meshlocal_test.c $(MESH_SUITE)
tests_unit_comm_meshlocal_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshmixed_test_SOURCES = tests/unit/comm/meshmixed_test.c $(MESH_SUITE)
tests_unit_comm_meshmixed_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshnap_test_SOURCES = tests/unit/comm/meshnap_test.c $(MESH_WORLD)
tests_unit_comm_meshnap_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshseg_test_SOURCES = tests/unit/comm/meshseg_test.c $(MESH_WORLD)
tests_unit_comm_meshseg_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshshm_test_SOURCES = tests/unit/comm/meshshm_test.c $(MESH_SUITE)
tests_unit_comm_meshshm_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshtls_test_SOURCES = tests/unit/comm/meshtls_test.c $(MESH_SUITE)
tests_unit_comm_meshtls_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_meshwire_test_SOURCES = tests/unit/comm/meshwire_test.c $(MESH_WORLD)
tests_unit_comm_meshwire_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_runs_test_LDADD = $(COMM_TEST_LIBS)
tests_unit_comm_ncclcomm_test_SOURCES = tests/unit/comm/ncclcomm_test.c $(COMM_SUITE) $(NCCL_WORLD)
tests_unit_comm_ncclcomm_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_ncclkill_test_SOURCES = tests/unit/comm/ncclkill_test.c $(NCCL_WORLD)
tests_unit_comm_ncclkill_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_nccllib_test_SOURCES = tests/unit/comm/nccllib_test.c $(NCCL_WORLD)
tests_unit_comm_nccllib_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_nccllink_test_SOURCES = tests/unit/comm/nccllink_test.c $(NCCL_WORLD)
tests_unit_comm_nccllink_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_ncclabi_test_SOURCES = tests/unit/comm/ncclabi_test.c
tests_unit_comm_ncclabi_test_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_unit_comm_ncclabi_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_realnccl_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_ncclneed_test_LDADD = $(NCCL_TEST_LIBS)
tests_unit_comm_nccldevice_test_SOURCES = tests/unit/comm/nccldevice_test.c $(NCCL_WORLD) \
  tests/unit/cuda/standin.c tests/unit/cuda/standin.h
tests_unit_comm_nccldevice_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_comm_nccldevice_test_LDADD = tests/lib/libfakehost.a tests/lib/libfakecuda.a \
  $(TEST_LIBS) $(NCCL_LIBS) $(BACKEND_LIBS) $(BASE_LIBS)
