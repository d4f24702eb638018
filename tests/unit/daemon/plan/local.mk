PLAN_CASES = tests/unit/daemon/plan/plan_cases.c tests/unit/daemon/plan/plan_cases.h
PLAN_MODEL = tests/unit/daemon/plan/plan_model.c tests/unit/daemon/plan/plan_model.h
plan_tests = \
  tests/unit/daemon/plan/plan_test \
  tests/unit/daemon/plan/published_test
test_links += $(plan_tests)
check_PROGRAMS += tests/unit/daemon/plan/plan_tests
$(plan_tests): tests/unit/daemon/plan/plan_tests
	$(LINK_TEST)
tests_unit_daemon_plan_plan_tests_SOURCES = \
  tests/unit/daemon/plan/plan_test.c \
  tests/unit/daemon/plan/published_test.c \
  $(PLAN_MODEL)
tests_unit_daemon_plan_plan_tests_LDADD = $(TEST_LIBS) $(SPMD_LIBS)
