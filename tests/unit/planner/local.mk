planner_tests = \
  tests/unit/planner/bf16price_test \
  tests/unit/planner/clusterfile_test \
  tests/unit/planner/correct_test \
  tests/unit/planner/devprice_test \
  tests/unit/planner/gemmprice_test \
  tests/unit/planner/jobfile_test \
  tests/unit/planner/lengths_test \
  tests/unit/planner/movedbytes_test \
  tests/unit/planner/planmemory_test \
  tests/unit/planner/pipeline_test \
  tests/unit/planner/planner_test \
  tests/unit/planner/shares_test \
  tests/unit/planner/supers_test \
  tests/unit/planner/timing_test \
  tests/unit/planner/work_test
check_PROGRAMS += $(planner_tests)
TESTS += $(planner_tests)
PLANNER_TEST_LIBS = $(TEST_LIBS) $(PLANNER_LIBS)
tests_unit_planner_bf16price_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_clusterfile_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_correct_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_devprice_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_gemmprice_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_jobfile_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_lengths_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_movedbytes_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_pipeline_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_planner_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_shares_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_supers_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_timing_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_work_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_planmemory_test_SOURCES = tests/unit/planner/planmemory_test.c \
  tests/unit/spmd/plancases.c tests/unit/spmd/plancases.h
tests_unit_planner_planmemory_test_LDADD = $(PLANNER_TEST_LIBS)
