data_tests = tests/unit/worker/data/data_cache_test tests/unit/worker/data/dataset_test tests/unit/worker/data/formats_test \
  tests/unit/worker/data/pattern_test
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
tests_unit_worker_data_data_cache_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_worker_data_dataset_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_worker_data_formats_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_worker_data_pattern_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
