base_tests = \
  tests/unit/proto/base/arena_test \
  tests/unit/proto/base/buf_test \
  tests/unit/proto/base/element_hash_test \
  tests/unit/proto/base/err_test \
  tests/unit/proto/base/hash_test \
  tests/unit/proto/base/lz_test \
  tests/unit/proto/base/map_test \
  tests/unit/proto/base/place_test \
  tests/unit/proto/base/rng_test \
  tests/unit/proto/base/str_test \
  tests/unit/proto/base/word_sums_test
test_links += $(base_tests)
check_PROGRAMS += tests/unit/proto/base/base_tests
$(base_tests): tests/unit/proto/base/base_tests
	$(LINK_TEST)
tests_unit_proto_base_base_tests_SOURCES = \
  tests/unit/proto/base/arena_test.c \
  tests/unit/proto/base/buf_test.c \
  tests/unit/proto/base/element_hash_test.c \
  tests/unit/proto/base/err_test.c \
  tests/unit/proto/base/hash_test.c \
  tests/unit/proto/base/lz_test.c \
  tests/unit/proto/base/map_test.c \
  tests/unit/proto/base/place_test.c \
  tests/unit/proto/base/rng_test.c \
  tests/unit/proto/base/str_test.c \
  tests/unit/proto/base/word_sums_test.c
tests_unit_proto_base_base_tests_LDADD = $(LDADD)
