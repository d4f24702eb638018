data_tests = tests/unit/data/textfile_test
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
tests_unit_data_textfile_test_LDADD = $(TEST_LIBS) $(DATA_LIBS)
