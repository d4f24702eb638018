layout_tests = \
  tests/unit/layout/annot_test \
  tests/unit/layout/canon_test \
  tests/unit/layout/cover_test \
  tests/unit/layout/interleave_test \
  tests/unit/layout/unions_test
check_PROGRAMS += $(layout_tests)
TESTS += $(layout_tests)
layout_libs = $(TEST_LIBS) proto/layout/liblayout.a $(TEXT_LIBS)
tests_unit_layout_annot_test_LDADD = $(layout_libs)
tests_unit_layout_canon_test_LDADD = $(layout_libs)
tests_unit_layout_cover_test_LDADD = $(layout_libs)
tests_unit_layout_interleave_test_LDADD = $(layout_libs)
tests_unit_layout_unions_test_SOURCES = tests/unit/layout/unions_test.c \
  tests/unit/layout/unions.c tests/unit/layout/unions.h
tests_unit_layout_unions_test_LDADD = $(layout_libs)
