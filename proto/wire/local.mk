noinst_LIBRARIES += proto/wire/libwire.a
proto_wire_libwire_a_SOURCES = \
  proto/wire/frame.c proto/wire/frame.h \
  proto/wire/msg.c proto/wire/msg.h \
  proto/wire/msgframe.c proto/wire/msgframe.h \
  proto/wire/msgencode.c \
  proto/wire/msgblob.c proto/wire/msgblob.h \
  proto/wire/msgtable.c proto/wire/msgtable.h \
  proto/wire/tracepart.c proto/wire/tracepart.h

# What links libwire needs these behind it.
WIRE_LIBS = proto/wire/libwire.a $(CJSON_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/wire/README.md
