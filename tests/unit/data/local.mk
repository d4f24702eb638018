data_tests = tests/unit/data/datacache_test tests/unit/data/dataset_test tests/unit/data/formats_test \
  tests/unit/data/pattern_test
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
tests_unit_data_datacache_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_data_dataset_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_data_formats_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
tests_unit_data_pattern_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
