layout_tests = \
  tests/unit/proto/layout/annot_test \
  tests/unit/proto/layout/canon_test \
  tests/unit/proto/layout/cover_test \
  tests/unit/proto/layout/interleave_test \
  tests/unit/proto/layout/unions_test
check_PROGRAMS += $(layout_tests)
TESTS += $(layout_tests)
layout_libs = $(TEST_LIBS) proto/layout/liblayout.a $(TEXT_LIBS)
tests_unit_proto_layout_annot_test_LDADD = $(layout_libs)
tests_unit_proto_layout_canon_test_LDADD = $(layout_libs)
tests_unit_proto_layout_cover_test_LDADD = $(layout_libs)
tests_unit_proto_layout_interleave_test_LDADD = $(layout_libs)
tests_unit_proto_layout_unions_test_SOURCES = tests/unit/proto/layout/unions_test.c \
  tests/unit/proto/layout/unions.c tests/unit/proto/layout/unions.h
tests_unit_proto_layout_unions_test_LDADD = $(layout_libs)
