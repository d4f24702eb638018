base_tests = \
  tests/unit/proto/base/arena_test \
  tests/unit/proto/base/buf_test \
  tests/unit/proto/base/err_test \
  tests/unit/proto/base/hash_test \
  tests/unit/proto/base/map_test \
  tests/unit/proto/base/rng_test \
  tests/unit/proto/base/str_test
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)
