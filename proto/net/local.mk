# Framed connections: on a libuv loop, and blocking; TLS with keys.
noinst_LIBRARIES += proto/net/libnet.a
proto_net_libnet_a_SOURCES = \
  proto/net/addr.c proto/net/addr.h \
  proto/net/ip_net.c proto/net/ip_net.h \
  proto/net/frame_client.c proto/net/frame_client.h \
  proto/net/net.c proto/net/net.h proto/net/net_impl.h \
  proto/net/net_dial.c proto/net/net_dial.h \
  proto/net/net_end.c proto/net/net_end.h \
  proto/net/net_listen.c proto/net/net_listen.h \
  proto/net/net_pool.c proto/net/net_pool.h \
  proto/net/net_read.c proto/net/net_read.h \
  proto/net/net_table.c proto/net/net_table.h \
  proto/net/net_write.c proto/net/net_write.h \
  proto/net/strangers.c proto/net/strangers.h \
  proto/net/tls_psk.c proto/net/tls_psk.h
NET_LIBS = proto/net/libnet.a proto/wire/libwire.a proto/host/libhost.a \
  $(SYSTEMD_LIBS) $(UV_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CJSON_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/net/README.md
