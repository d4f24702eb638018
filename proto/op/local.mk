noinst_LIBRARIES += proto/op/libop.a
proto_op_libop_a_SOURCES = \
  proto/op/bf16.h \
  proto/op/dtype.c proto/op/dtype.h \
  proto/op/gemmclass.c proto/op/gemmclass.h \
  proto/op/op.c proto/op/op.h
