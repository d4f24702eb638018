wire_tests = \
  tests/unit/wire/frame_test \
  tests/unit/wire/msg_test \
  tests/unit/wire/msgblob_test \
  tests/unit/wire/tracepart_test
check_PROGRAMS += $(wire_tests)
TESTS += $(wire_tests)
tests_unit_wire_frame_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
MSG_DUMP = tests/unit/wire/msgdump.c tests/unit/wire/msgdump.h
tests_unit_wire_msg_test_SOURCES = tests/unit/wire/msg_test.c $(MSG_DUMP)
tests_unit_wire_msg_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
tests_unit_wire_msgblob_test_SOURCES = tests/unit/wire/msgblob_test.c $(PKG_SAMPLE)
tests_unit_wire_msgblob_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
PKG_SAMPLE = tests/unit/wire/pkgsample.c tests/unit/wire/pkgsample.h
tests_unit_wire_tracepart_test_SOURCES = tests/unit/wire/tracepart_test.c $(PART_SAMPLE)
tests_unit_wire_tracepart_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
PART_SAMPLE = tests/unit/wire/partsample.c tests/unit/wire/partsample.h
