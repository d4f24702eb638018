op_tests = \
  tests/unit/proto/op/bf16_test \
  tests/unit/proto/op/cut_test \
  tests/unit/proto/op/gemm_class_test \
  tests/unit/proto/op/op_test
test_links += $(op_tests)
check_PROGRAMS += tests/unit/proto/op/op_tests
$(op_tests): tests/unit/proto/op/op_tests
	$(LINK_TEST)
tests_unit_proto_op_op_tests_SOURCES = \
  tests/unit/proto/op/bf16_test.c \
  tests/unit/proto/op/cut_test.c \
  tests/unit/proto/op/gemm_class_test.c \
  tests/unit/proto/op/op_test.c
tests_unit_proto_op_op_tests_LDADD = $(TEST_LIBS) proto/op/libop.a $(BASE_LIBS)
