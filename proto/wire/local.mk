noinst_LIBRARIES += proto/wire/libwire.a
proto_wire_libwire_a_SOURCES = \
  proto/wire/ckpt_cut.h \
  proto/wire/frame.c proto/wire/frame.h \
  proto/wire/identity.h \
  proto/wire/msg.c proto/wire/msg.h \
  proto/wire/msg_frame.c proto/wire/msg_frame.h \
  proto/wire/msg_encode.c proto/wire/msg_encode.h \
  proto/wire/msg_blob.c proto/wire/msg_blob.h \
  proto/wire/msg_table.c proto/wire/msg_table.h \
  proto/wire/papers.c proto/wire/papers.h \
  proto/wire/protocol.c proto/wire/protocol.h \
  proto/wire/trace_part.c proto/wire/trace_part.h

# Programs that link libwire need these behind it.
WIRE_LIBS = proto/wire/libwire.a $(CJSON_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/wire/README.md
