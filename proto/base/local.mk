noinst_LIBRARIES += proto/base/libbase.a
proto_base_libbase_a_SOURCES = \
  proto/base/arena.c proto/base/arena.h \
  proto/base/buf.c proto/base/buf.h \
  proto/base/check.c proto/base/check.h \
  proto/base/element_hash.c proto/base/element_hash.h proto/base/element_hash.inc \
  proto/base/err.c proto/base/err.h \
  proto/base/hash.c proto/base/hash.h \
  proto/base/le.h \
  proto/base/lz.c proto/base/lz.h \
  proto/base/map.c proto/base/map.h \
  proto/base/place.c proto/base/place.h \
  proto/base/rng.c proto/base/rng.h proto/base/simd.h \
  proto/base/size.h \
  proto/base/str.c proto/base/str.h \
  proto/base/vec.c proto/base/vec.h \
  proto/base/word_sums.c proto/base/word_sums.h
