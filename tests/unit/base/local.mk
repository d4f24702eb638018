base_tests = \
  tests/unit/base/arena_test \
  tests/unit/base/buf_test \
  tests/unit/base/err_test \
  tests/unit/base/hash_test \
  tests/unit/base/map_test \
  tests/unit/base/rng_test \
  tests/unit/base/str_test
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)
