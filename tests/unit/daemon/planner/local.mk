planner_tests = \
  tests/unit/daemon/planner/bf16_price_test \
  tests/unit/daemon/planner/bucket_test \
  tests/unit/daemon/planner/cluster_file_test \
  tests/unit/daemon/planner/correct_test \
  tests/unit/daemon/planner/device_price_test \
  tests/unit/daemon/planner/gemm_price_test \
  tests/unit/daemon/planner/job_file_test \
  tests/unit/daemon/planner/lengths_test \
  tests/unit/daemon/planner/moved_bytes_test \
  tests/unit/daemon/planner/pipeline_test \
  tests/unit/daemon/planner/plan_memory_test \
  tests/unit/daemon/planner/planner_test \
  tests/unit/daemon/planner/published_clusters_test \
  tests/unit/daemon/planner/shares_test \
  tests/unit/daemon/planner/state_room_test \
  tests/unit/daemon/planner/tp_groups_test \
  tests/unit/daemon/planner/timing_test \
  tests/unit/daemon/planner/work_test
test_links += $(planner_tests)
check_PROGRAMS += tests/unit/daemon/planner/planner_tests
$(planner_tests): tests/unit/daemon/planner/planner_tests
	$(LINK_TEST)
tests_unit_daemon_planner_planner_tests_SOURCES = \
  tests/unit/daemon/planner/bf16_price_test.c \
  tests/unit/daemon/planner/bucket_test.c \
  tests/unit/daemon/planner/cluster_file_test.c \
  tests/unit/daemon/planner/correct_test.c \
  tests/unit/daemon/planner/device_price_test.c \
  tests/unit/daemon/planner/gemm_price_test.c \
  tests/unit/daemon/planner/job_file_test.c \
  tests/unit/daemon/planner/lengths_test.c \
  tests/unit/daemon/planner/moved_bytes_test.c \
  tests/unit/daemon/planner/pipeline_test.c \
  tests/unit/daemon/planner/plan_memory_test.c \
  tests/unit/daemon/planner/planner_test.c \
  tests/unit/daemon/planner/published_clusters_test.c \
  tests/unit/daemon/planner/shares_test.c \
  tests/unit/daemon/planner/state_room_test.c \
  tests/unit/daemon/planner/tp_groups_test.c \
  tests/unit/daemon/planner/timing_test.c \
  tests/unit/daemon/planner/work_test.c \
  $(PLAN_CASES)
tests_unit_daemon_planner_planner_tests_LDADD = $(TEST_LIBS) $(PLANNER_LIBS)
