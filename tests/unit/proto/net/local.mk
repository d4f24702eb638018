net_tests = \
  tests/unit/proto/net/addr_test \
  tests/unit/proto/net/ip_net_test \
  tests/unit/proto/net/net_test \
  tests/unit/proto/net/net_dial_test \
  tests/unit/proto/net/strangers_test \
  tests/unit/proto/net/tls_psk_test
test_links += $(net_tests)
check_PROGRAMS += tests/unit/proto/net/net_tests
$(net_tests): tests/unit/proto/net/net_tests
	$(LINK_TEST)
tests_unit_proto_net_net_tests_SOURCES = \
  tests/unit/proto/net/addr_test.c \
  tests/unit/proto/net/ip_net_test.c \
  tests/unit/proto/net/net_test.c \
  tests/unit/proto/net/net_dial_test.c \
  tests/unit/proto/net/strangers_test.c \
  tests/unit/proto/net/tls_psk_test.c \
  tests/unit/proto/net/net_shell.c tests/unit/proto/net/net_shell.h
tests_unit_proto_net_net_tests_LDADD = $(TEST_LIBS) $(NET_LIBS)
