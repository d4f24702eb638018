NCCL_WORLD = tests/unit/worker/comm/nccl_world.c tests/unit/worker/comm/nccl_world.h
NCCL_STREAMS = tests/unit/worker/comm/nccl_streams.c tests/unit/worker/comm/nccl_streams.h
NCCL_TEST_LIBS = $(TEST_LIBS) $(NCCL_LIBS) $(BACKEND_LIBS) $(BASE_LIBS)
comm_tests = \
  tests/unit/worker/comm/loop_comm_test \
  tests/unit/worker/comm/mesh_test \
  tests/unit/worker/comm/mesh_beat_test \
  tests/unit/worker/comm/mesh_crowd_test \
  tests/unit/worker/comm/mesh_deaf_test \
  tests/unit/worker/comm/mesh_fail_test \
  tests/unit/worker/comm/mesh_local_test \
  tests/unit/worker/comm/mesh_mixed_test \
  tests/unit/worker/comm/mesh_seg_test \
  tests/unit/worker/comm/mesh_shm_test \
  tests/unit/worker/comm/mesh_tls_test \
  tests/unit/worker/comm/mesh_wire_test \
  tests/unit/worker/comm/mesh_yield_test \
  tests/unit/worker/comm/nccl_comm_test \
  tests/unit/worker/comm/nccl_kill_test \
  tests/unit/worker/comm/nccl_lib_test \
  tests/unit/worker/comm/nccl_link_test \
  tests/unit/worker/comm/nccl_need_test \
  tests/unit/worker/comm/runs_test
test_links += $(comm_tests)
check_PROGRAMS += tests/unit/worker/comm/comm_tests
$(comm_tests): tests/unit/worker/comm/comm_tests
	$(LINK_TEST)
tests_unit_worker_comm_comm_tests_SOURCES = \
  tests/unit/worker/comm/loop_comm_test.c \
  tests/unit/worker/comm/mesh_test.c \
  tests/unit/worker/comm/mesh_beat_test.c \
  tests/unit/worker/comm/mesh_crowd_test.c \
  tests/unit/worker/comm/mesh_deaf_test.c \
  tests/unit/worker/comm/mesh_fail_test.c \
  tests/unit/worker/comm/mesh_local_test.c \
  tests/unit/worker/comm/mesh_mixed_test.c \
  tests/unit/worker/comm/mesh_seg_test.c \
  tests/unit/worker/comm/mesh_shm_test.c \
  tests/unit/worker/comm/mesh_tls_test.c \
  tests/unit/worker/comm/mesh_wire_test.c \
  tests/unit/worker/comm/mesh_yield_test.c \
  tests/unit/worker/comm/nccl_comm_test.c \
  tests/unit/worker/comm/nccl_kill_test.c \
  tests/unit/worker/comm/nccl_lib_test.c \
  tests/unit/worker/comm/nccl_link_test.c \
  tests/unit/worker/comm/nccl_need_test.c \
  tests/unit/worker/comm/runs_test.c \
  tests/unit/worker/comm/comm_suite.c tests/unit/worker/comm/comm_suite.h \
  tests/unit/worker/comm/mesh_suite.c tests/unit/worker/comm/mesh_suite.h \
  tests/unit/worker/comm/mesh_world.c tests/unit/worker/comm/mesh_world.h $(NCCL_WORLD)
tests_unit_worker_comm_comm_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=accept4,--wrap=poll
EXTRA_tests_unit_worker_comm_comm_tests_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2
tests_unit_worker_comm_comm_tests_LDADD = $(NCCL_TEST_LIBS)
# Its syscall() takes the place of the C library's.
check_PROGRAMS += tests/unit/worker/comm/mesh_nap_test
TESTS += tests/unit/worker/comm/mesh_nap_test
tests_unit_worker_comm_mesh_nap_test_SOURCES = tests/unit/worker/comm/mesh_nap_test.c \
  tests/unit/worker/comm/mesh_world.c tests/unit/worker/comm/mesh_world.h
tests_unit_worker_comm_mesh_nap_test_LDADD = $(TEST_LIBS) $(COMM_LIBS) $(BASE_LIBS)
# Over a CUDA device of host memory.
check_PROGRAMS += tests/unit/worker/comm/nccl_device_test
TESTS += tests/unit/worker/comm/nccl_device_test
tests_unit_worker_comm_nccl_device_test_SOURCES = \
  tests/unit/worker/comm/nccl_device_test.c \
  $(NCCL_WORLD) $(NCCL_STREAMS) \
  tests/unit/worker/cuda/stand_in.c tests/unit/worker/cuda/stand_in.h
tests_unit_worker_comm_nccl_device_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
EXTRA_tests_unit_worker_comm_nccl_device_test_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2
tests_unit_worker_comm_nccl_device_test_LDADD = tests/lib/libfakehost.a tests/lib/libfakecuda.a \
  $(NCCL_TEST_LIBS)
# With the header of NCCL; the claim real-libraries links it with others.
if HAVE_NCCL_H
check_PROGRAMS += tests/unit/worker/comm/nccl_abi_test
TESTS += tests/unit/worker/comm/nccl_abi_test
endif
tests_unit_worker_comm_nccl_abi_test_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_unit_worker_comm_nccl_abi_test_LDADD = $(NCCL_TEST_LIBS)
check_PROGRAMS += tests/unit/worker/comm/real_nccl
tests_unit_worker_comm_real_nccl_LDADD = $(NCCL_TEST_LIBS)
