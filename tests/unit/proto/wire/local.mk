wire_tests = \
  tests/unit/proto/wire/frame_test \
  tests/unit/proto/wire/msg_test \
  tests/unit/proto/wire/msg_blob_test \
  tests/unit/proto/wire/trace_part_test
check_PROGRAMS += $(wire_tests)
TESTS += $(wire_tests)
tests_unit_proto_wire_frame_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
MSG_DUMP = tests/unit/proto/wire/msg_dump.c tests/unit/proto/wire/msg_dump.h
tests_unit_proto_wire_msg_test_SOURCES = tests/unit/proto/wire/msg_test.c $(MSG_DUMP)
tests_unit_proto_wire_msg_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
tests_unit_proto_wire_msg_blob_test_SOURCES = tests/unit/proto/wire/msg_blob_test.c $(PKG_SAMPLE)
tests_unit_proto_wire_msg_blob_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
PKG_SAMPLE = tests/unit/proto/wire/package_sample.c tests/unit/proto/wire/package_sample.h
tests_unit_proto_wire_trace_part_test_SOURCES = tests/unit/proto/wire/trace_part_test.c $(PART_SAMPLE)
tests_unit_proto_wire_trace_part_test_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
PART_SAMPLE = tests/unit/proto/wire/part_sample.c tests/unit/proto/wire/part_sample.h
