device_run = tests/unit/worker/run/device_run.c tests/unit/worker/run/device_run.h
# local_nccl_test: ranks on devices that do their work late, over the fake NCCL.
run_tests = \
  tests/unit/worker/run/documents_test \
  tests/unit/worker/run/local_nccl_test \
  tests/unit/worker/run/peak_memory_test \
  tests/unit/worker/run/run_device_test \
  tests/unit/worker/run/run_program_test \
  tests/unit/worker/run/verify_test
test_links += $(run_tests)
check_PROGRAMS += tests/unit/worker/run/run_tests
$(run_tests): tests/unit/worker/run/run_tests
	$(LINK_TEST)
tests_unit_worker_run_run_tests_SOURCES = \
  tests/unit/worker/run/documents_test.c \
  tests/unit/worker/run/local_nccl_test.c \
  tests/unit/worker/run/peak_memory_test.c \
  tests/unit/worker/run/run_device_test.c \
  tests/unit/worker/run/run_program_test.c \
  tests/unit/worker/run/verify_test.c \
  $(NCCL_WORLD) $(device_run)
tests_unit_worker_run_run_tests_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
EXTRA_tests_unit_worker_run_run_tests_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2
tests_unit_worker_run_run_tests_LDADD = tests/lib/libmockdev.a $(TEST_LIBS) $(PLANNER_LIBS) \
  $(RUN_LIBS) $(TEXT_LIBS)
