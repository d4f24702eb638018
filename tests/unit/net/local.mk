NET_SHELL = tests/unit/net/net_shell.c tests/unit/net/net_shell.h
net_tests = \
  tests/unit/net/addr_test \
  tests/unit/net/ipnet_test \
  tests/unit/net/net_test \
  tests/unit/net/netdial_test \
  tests/unit/net/tlspsk_test
check_PROGRAMS += $(net_tests)
TESTS += $(net_tests)
tests_unit_net_addr_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_net_ipnet_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_net_net_test_SOURCES = tests/unit/net/net_test.c $(NET_SHELL)
tests_unit_net_net_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_net_netdial_test_SOURCES = tests/unit/net/netdial_test.c $(NET_SHELL)
tests_unit_net_netdial_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
tests_unit_net_tlspsk_test_LDADD = $(TEST_LIBS) $(NET_LIBS)
