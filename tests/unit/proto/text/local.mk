text_tests = \
  tests/unit/proto/text/field_test \
  tests/unit/proto/text/yaml_test
check_PROGRAMS += $(text_tests)
TESTS += $(text_tests)
tests_unit_proto_text_field_test_LDADD = $(TEST_LIBS) $(TEXT_LIBS)
tests_unit_proto_text_yaml_test_LDADD = $(TEST_LIBS) $(TEXT_LIBS)
