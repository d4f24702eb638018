planner_tests = \
  tests/unit/planner/clusterfile_test \
  tests/unit/planner/jobfile_test
check_PROGRAMS += $(planner_tests)
TESTS += $(planner_tests)
PLANNER_TEST_LIBS = $(TEST_LIBS) daemon/planner/libplanner.a proto/op/libop.a $(TEXT_LIBS)
tests_unit_planner_clusterfile_test_LDADD = $(PLANNER_TEST_LIBS)
tests_unit_planner_jobfile_test_LDADD = $(PLANNER_TEST_LIBS)
