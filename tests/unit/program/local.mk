program_tests = tests/unit/program/codec_test \
  tests/unit/program/datacursor_test tests/unit/program/pack_test tests/unit/program/pool_test tests/unit/program/sheet_test
check_PROGRAMS += $(program_tests)
TESTS += $(program_tests)
tests_unit_program_codec_test_SOURCES = tests/unit/program/codec_test.c $(TINY_PROG)
tests_unit_program_codec_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_program_pack_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_program_pool_test_SOURCES = tests/unit/program/pool_test.c $(TINY_PROG)
tests_unit_program_pool_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_program_sheet_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_program_datacursor_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
