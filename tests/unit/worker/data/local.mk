data_tests = \
  tests/unit/worker/data/data_cache_test \
  tests/unit/worker/data/dataset_test \
  tests/unit/worker/data/formats_test \
  tests/unit/worker/data/pattern_test
test_links += $(data_tests)
check_PROGRAMS += tests/unit/worker/data/data_tests
$(data_tests): tests/unit/worker/data/data_tests
	$(LINK_TEST)
tests_unit_worker_data_data_tests_SOURCES = \
  tests/unit/worker/data/data_cache_test.c \
  tests/unit/worker/data/dataset_test.c \
  tests/unit/worker/data/formats_test.c \
  tests/unit/worker/data/pattern_test.c
tests_unit_worker_data_data_tests_LDADD = $(TEST_LIBS) $(DATA_LIBS)
