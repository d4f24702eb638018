NET_SHELL = tests/unit/proto/net/net_shell.c tests/unit/proto/net/net_shell.h
net_tests = \
  tests/unit/proto/net/addr_test \
  tests/unit/proto/net/ip_net_test \
  tests/unit/proto/net/net_test \
  tests/unit/proto/net/net_dial_test \
  tests/unit/proto/net/tls_psk_test
check_PROGRAMS += $(net_tests)
TESTS += $(net_tests)
tests_unit_proto_net_addr_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_proto_net_ip_net_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_proto_net_net_test_SOURCES = tests/unit/proto/net/net_test.c $(NET_SHELL)
tests_unit_proto_net_net_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_proto_net_net_dial_test_SOURCES = tests/unit/proto/net/net_dial_test.c $(NET_SHELL)
tests_unit_proto_net_net_dial_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_proto_net_tls_psk_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
