migrate_tests = \
  tests/unit/daemon/migrate/bsr_test \
  tests/unit/daemon/migrate/state_placement_test
test_links += $(migrate_tests)
check_PROGRAMS += tests/unit/daemon/migrate/migrate_tests
$(migrate_tests): tests/unit/daemon/migrate/migrate_tests
	$(LINK_TEST)
tests_unit_daemon_migrate_migrate_tests_SOURCES = \
  tests/unit/daemon/migrate/bsr_test.c \
  tests/unit/daemon/migrate/state_placement_test.c
tests_unit_daemon_migrate_migrate_tests_LDADD = tests/lib/libgreedybsr.a $(TEST_LIBS) $(SPMD_LIBS)
