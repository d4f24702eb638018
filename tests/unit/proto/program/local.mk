program_tests = tests/unit/proto/program/codec_test \
  tests/unit/proto/program/data_cursor_test tests/unit/proto/program/pack_test tests/unit/proto/program/pool_test tests/unit/proto/program/sheet_test
check_PROGRAMS += $(program_tests)
TESTS += $(program_tests)
tests_unit_proto_program_codec_test_SOURCES = tests/unit/proto/program/codec_test.c $(TINY_PROG)
tests_unit_proto_program_codec_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_proto_program_pack_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_proto_program_pool_test_SOURCES = tests/unit/proto/program/pool_test.c $(TINY_PROG)
tests_unit_proto_program_pool_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_proto_program_sheet_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
tests_unit_proto_program_data_cursor_test_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
