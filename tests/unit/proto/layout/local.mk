layout_tests = \
  tests/unit/proto/layout/annot_test \
  tests/unit/proto/layout/canon_test \
  tests/unit/proto/layout/cover_test \
  tests/unit/proto/layout/interleave_test \
  tests/unit/proto/layout/unions_test
test_links += $(layout_tests)
check_PROGRAMS += tests/unit/proto/layout/layout_tests
$(layout_tests): tests/unit/proto/layout/layout_tests
	$(LINK_TEST)
tests_unit_proto_layout_layout_tests_SOURCES = \
  tests/unit/proto/layout/annot_test.c \
  tests/unit/proto/layout/canon_test.c \
  tests/unit/proto/layout/cover_test.c \
  tests/unit/proto/layout/interleave_test.c \
  tests/unit/proto/layout/unions_test.c \
  tests/unit/proto/layout/unions.c tests/unit/proto/layout/unions.h
tests_unit_proto_layout_layout_tests_LDADD = $(TEST_LIBS) proto/layout/liblayout.a $(TEXT_LIBS)
