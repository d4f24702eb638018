# Framed connections: on a libuv loop, and blocking; TLS with keys.
noinst_LIBRARIES += proto/net/libnet.a
proto_net_libnet_a_SOURCES = \
  proto/net/addr.c proto/net/addr.h \
  proto/net/ipnet.c proto/net/ipnet.h \
  proto/net/frameclient.c proto/net/frameclient.h \
  proto/net/net.c proto/net/net.h proto/net/netimpl.h \
  proto/net/netconn.c proto/net/netdial.c proto/net/netlisten.c \
  proto/net/tlspsk.c proto/net/tlspsk.h
NET_LIBS = proto/net/libnet.a proto/wire/libwire.a proto/host/libhost.a \
  $(SYSTEMD_LIBS) $(UV_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CJSON_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/net/README.md
