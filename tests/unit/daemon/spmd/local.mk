spmd_tests = \
  tests/unit/daemon/spmd/bf16_plan_test \
  tests/unit/daemon/spmd/buckets_test \
  tests/unit/daemon/spmd/compile_test \
  tests/unit/daemon/spmd/deduce_test \
  tests/unit/daemon/spmd/device_schedule_test \
  tests/unit/daemon/spmd/early_sums_test \
  tests/unit/daemon/spmd/explain_test \
  tests/unit/daemon/spmd/gather_place_test \
  tests/unit/daemon/spmd/infer_pipelines_test \
  tests/unit/daemon/spmd/kept_messages_test \
  tests/unit/daemon/spmd/oracle_test \
  tests/unit/daemon/spmd/pipeline_order_test \
  tests/unit/daemon/spmd/place_reductions_test \
  tests/unit/daemon/spmd/reshard_kind_test \
  tests/unit/daemon/spmd/resolve_test \
  tests/unit/daemon/spmd/ring_attention_test \
  tests/unit/daemon/spmd/shrink_model_test \
  tests/unit/daemon/spmd/stage_groups_test \
  tests/unit/daemon/spmd/template_builder_test \
  tests/unit/daemon/spmd/timeline_draw_test \
  tests/unit/daemon/spmd/total_plan_test \
  tests/unit/daemon/spmd/zero3_test
test_links += $(spmd_tests)
check_PROGRAMS += tests/unit/daemon/spmd/spmd_tests
$(spmd_tests): tests/unit/daemon/spmd/spmd_tests
	$(LINK_TEST)
tests_unit_daemon_spmd_spmd_tests_SOURCES = \
  tests/unit/daemon/spmd/bf16_plan_test.c \
  tests/unit/daemon/spmd/buckets_test.c \
  tests/unit/daemon/spmd/compile_test.c \
  tests/unit/daemon/spmd/deduce_test.c \
  tests/unit/daemon/spmd/device_schedule_test.c \
  tests/unit/daemon/spmd/early_sums_test.c \
  tests/unit/daemon/spmd/explain_test.c \
  tests/unit/daemon/spmd/gather_place_test.c \
  tests/unit/daemon/spmd/infer_pipelines_test.c \
  tests/unit/daemon/spmd/kept_messages_test.c \
  tests/unit/daemon/spmd/oracle_test.c \
  tests/unit/daemon/spmd/pipeline_order_test.c \
  tests/unit/daemon/spmd/place_reductions_test.c \
  tests/unit/daemon/spmd/reshard_kind_test.c \
  tests/unit/daemon/spmd/resolve_test.c \
  tests/unit/daemon/spmd/ring_attention_test.c \
  tests/unit/daemon/spmd/shrink_model_test.c \
  tests/unit/daemon/spmd/stage_groups_test.c \
  tests/unit/daemon/spmd/template_builder_test.c \
  tests/unit/daemon/spmd/timeline_draw_test.c \
  tests/unit/daemon/spmd/total_plan_test.c \
  tests/unit/daemon/spmd/zero3_test.c \
  tests/unit/daemon/spmd/machine.c tests/unit/daemon/spmd/machine.h \
  tests/unit/daemon/spmd/move_text.c tests/unit/daemon/spmd/move_text.h \
  tests/unit/daemon/spmd/place_cost.c tests/unit/daemon/spmd/place_cost.h \
  tests/unit/daemon/spmd/plan_run.c tests/unit/daemon/spmd/plan_run.h \
  tests/unit/daemon/spmd/use_form.c tests/unit/daemon/spmd/use_form.h \
  tests/unit/daemon/spmd/machine_state.c tests/unit/daemon/spmd/machine_impl.h $(PLAN_CASES) \
  $(PLAN_MODEL)
tests_unit_daemon_spmd_spmd_tests_LDADD = $(TEST_LIBS) $(SPMD_LIBS) $(CJSON_LIBS)
