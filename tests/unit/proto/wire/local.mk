MSG_DUMP = tests/unit/proto/wire/msg_dump.c tests/unit/proto/wire/msg_dump.h
PKG_SAMPLE = tests/unit/proto/wire/package_sample.c tests/unit/proto/wire/package_sample.h
PAPERS_SAMPLE = tests/unit/proto/wire/papers_sample.h
PART_SAMPLE = tests/unit/proto/wire/part_sample.c tests/unit/proto/wire/part_sample.h
wire_tests = \
  tests/unit/proto/wire/frame_test \
  tests/unit/proto/wire/msg_test \
  tests/unit/proto/wire/msg_blob_test \
  tests/unit/proto/wire/papers_test \
  tests/unit/proto/wire/protocol_test \
  tests/unit/proto/wire/trace_part_test
test_links += $(wire_tests)
check_PROGRAMS += tests/unit/proto/wire/wire_tests
$(wire_tests): tests/unit/proto/wire/wire_tests
	$(LINK_TEST)
tests_unit_proto_wire_wire_tests_SOURCES = \
  tests/unit/proto/wire/frame_test.c \
  tests/unit/proto/wire/msg_test.c \
  tests/unit/proto/wire/msg_blob_test.c \
  tests/unit/proto/wire/papers_test.c $(PAPERS_SAMPLE) \
  tests/unit/proto/wire/protocol_test.c \
  tests/unit/proto/wire/trace_part_test.c \
  $(MSG_DUMP) $(PKG_SAMPLE) $(PART_SAMPLE)
tests_unit_proto_wire_wire_tests_LDADD = $(TEST_LIBS) $(WIRE_LIBS)
