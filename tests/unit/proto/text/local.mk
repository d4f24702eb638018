text_tests = \
  tests/unit/proto/text/field_test \
  tests/unit/proto/text/yaml_test
test_links += $(text_tests)
check_PROGRAMS += tests/unit/proto/text/text_tests
$(text_tests): tests/unit/proto/text/text_tests
	$(LINK_TEST)
tests_unit_proto_text_text_tests_SOURCES = \
  tests/unit/proto/text/field_test.c \
  tests/unit/proto/text/yaml_test.c
tests_unit_proto_text_text_tests_LDADD = $(TEST_LIBS) $(TEXT_LIBS)
