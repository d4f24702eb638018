noinst_LIBRARIES += proto/op/libop.a
proto_op_libop_a_SOURCES = \
  proto/op/bf16.h \
  proto/op/dtype.c proto/op/dtype.h \
  proto/op/gemm_class.c proto/op/gemm_class.h \
  proto/op/op.c proto/op/op.h
