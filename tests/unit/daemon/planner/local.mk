planner_tests = \
  tests/unit/daemon/planner/bf16_price_test \
  tests/unit/daemon/planner/cluster_file_test \
  tests/unit/daemon/planner/correct_test \
  tests/unit/daemon/planner/device_price_test \
  tests/unit/daemon/planner/gemm_price_test \
  tests/unit/daemon/planner/job_file_test \
  tests/unit/daemon/planner/lengths_test \
  tests/unit/daemon/planner/moved_bytes_test \
  tests/unit/daemon/planner/plan_memory_test \
  tests/unit/daemon/planner/pipeline_test \
  tests/unit/daemon/planner/planner_test \
  tests/unit/daemon/planner/shares_test \
  tests/unit/daemon/planner/supers_test \
  tests/unit/daemon/planner/timing_test \
  tests/unit/daemon/planner/work_test
check_PROGRAMS += $(planner_tests)
TESTS += $(planner_tests)
PLANNER_TEST_LIBS = $(TEST_LIBS) $(PLANNER_LIBS)
tests_unit_daemon_planner_bf16_price_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_cluster_file_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_correct_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_device_price_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_gemm_price_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_job_file_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_lengths_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_moved_bytes_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_pipeline_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_planner_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_shares_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_supers_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_timing_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_work_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_daemon_planner_plan_memory_test_SOURCES = tests/unit/daemon/planner/plan_memory_test.c \
  tests/unit/daemon/plan/plan_cases.c tests/unit/daemon/plan/plan_cases.h
tests_unit_daemon_planner_plan_memory_test_LDADD = $(PLANNER_TEST_LIBS)
