op_tests = \
  tests/unit/proto/op/bf16_test \
  tests/unit/proto/op/cut_test \
  tests/unit/proto/op/gemm_class_test \
  tests/unit/proto/op/op_test
check_PROGRAMS += $(op_tests)
TESTS += $(op_tests)
op_libs = $(TEST_LIBS) proto/op/libop.a $(BASE_LIBS)
tests_unit_proto_op_bf16_test_LDADD = $(op_libs)
tests_unit_proto_op_cut_test_LDADD = $(op_libs)
tests_unit_proto_op_gemm_class_test_LDADD = $(op_libs)
tests_unit_proto_op_op_test_LDADD = $(op_libs)
