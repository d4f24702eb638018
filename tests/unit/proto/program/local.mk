program_tests = \
  tests/unit/proto/program/codec_test \
  tests/unit/proto/program/data_cursor_test \
  tests/unit/proto/program/pack_test \
  tests/unit/proto/program/pool_test \
  tests/unit/proto/program/sheet_test
test_links += $(program_tests)
check_PROGRAMS += tests/unit/proto/program/program_tests
$(program_tests): tests/unit/proto/program/program_tests
	$(LINK_TEST)
tests_unit_proto_program_program_tests_SOURCES = \
  tests/unit/proto/program/codec_test.c \
  tests/unit/proto/program/data_cursor_test.c \
  tests/unit/proto/program/pack_test.c \
  tests/unit/proto/program/pool_test.c \
  tests/unit/proto/program/sheet_test.c \
  $(TINY_PROG)
tests_unit_proto_program_program_tests_LDADD = $(TEST_LIBS) $(PROGRAM_LIBS)
