spmd_tests = \
  tests/unit/daemon/spmd/bf16_plan_test \
  tests/unit/daemon/migrate/bsr_test \
  tests/unit/daemon/spmd/compile_test \
  tests/unit/daemon/spmd/total_plan_test \
  tests/unit/daemon/spmd/reduction_mincut_test \
  tests/unit/daemon/spmd/deduce_test \
  tests/unit/daemon/spmd/explain_test \
  tests/unit/daemon/spmd/infer_streams_test \
  tests/unit/daemon/spmd/zero3_test \
  tests/unit/daemon/spmd/stage_groups_test \
  tests/unit/daemon/spmd/reshard_kind_test \
  tests/unit/daemon/spmd/template_builder_test \
  tests/unit/daemon/spmd/timeline_draw_test \
  tests/unit/daemon/spmd/oracle_test \
  tests/unit/daemon/spmd/pipeline_order_test \
  tests/unit/daemon/plan/plan_test \
  tests/unit/daemon/plan/published_test \
  tests/unit/daemon/spmd/resolve_test \
  tests/unit/daemon/spmd/ring_attention_test \
  tests/unit/daemon/spmd/device_schedule_test \
  tests/unit/daemon/spmd/shrink_model_test \
  tests/unit/daemon/spmd/place_reductions_test \
  tests/unit/daemon/migrate/state_placement_test
check_PROGRAMS += $(spmd_tests)
TESTS += $(spmd_tests)
PLAN_CASES = tests/unit/daemon/plan/plan_cases.c tests/unit/daemon/plan/plan_cases.h
PLAN_MODEL = tests/unit/daemon/plan/plan_model.c tests/unit/daemon/plan/plan_model.h
spmd_libs = $(TEST_LIBS) $(SPMD_LIBS)
PLAN_RUN = tests/unit/daemon/spmd/plan_run.c tests/unit/daemon/spmd/plan_run.h \
  tests/unit/daemon/spmd/machine.c tests/unit/daemon/spmd/machine.h \
  tests/unit/daemon/spmd/machine_state.c tests/unit/daemon/spmd/machine_impl.h $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_daemon_spmd_compile_test_SOURCES = tests/unit/daemon/spmd/compile_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_bf16_plan_test_SOURCES = tests/unit/daemon/spmd/bf16_plan_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_bf16_plan_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_zero3_test_SOURCES = tests/unit/daemon/spmd/zero3_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_zero3_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_stage_groups_test_SOURCES = tests/unit/daemon/spmd/stage_groups_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_stage_groups_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_ring_attention_test_SOURCES = tests/unit/daemon/spmd/ring_attention_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_ring_attention_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_total_plan_test_SOURCES = tests/unit/daemon/spmd/total_plan_test.c $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_daemon_spmd_total_plan_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_compile_test_LDADD = $(spmd_libs)
PLACE_COST = tests/unit/daemon/spmd/place_cost.c tests/unit/daemon/spmd/place_cost.h $(PLAN_MODEL)
tests_unit_daemon_spmd_reduction_mincut_test_SOURCES = tests/unit/daemon/spmd/reduction_mincut_test.c $(PLACE_COST) $(PLAN_CASES)
tests_unit_daemon_spmd_reduction_mincut_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_place_reductions_test_SOURCES = tests/unit/daemon/spmd/place_reductions_test.c $(PLACE_COST) $(PLAN_CASES)
tests_unit_daemon_spmd_place_reductions_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_explain_test_SOURCES = tests/unit/daemon/spmd/explain_test.c $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_daemon_spmd_explain_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_infer_streams_test_SOURCES = tests/unit/daemon/spmd/infer_streams_test.c \
  tests/unit/daemon/spmd/use_form.c tests/unit/daemon/spmd/use_form.h $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_daemon_spmd_infer_streams_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_timeline_draw_test_LDADD = $(spmd_libs) $(CJSON_LIBS)
tests_unit_daemon_spmd_pipeline_order_test_LDADD = $(spmd_libs)
MOVE_TEXT = tests/unit/daemon/spmd/move_text.c tests/unit/daemon/spmd/move_text.h
tests_unit_daemon_spmd_reshard_kind_test_SOURCES = tests/unit/daemon/spmd/reshard_kind_test.c $(MOVE_TEXT)
tests_unit_daemon_spmd_reshard_kind_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_template_builder_test_SOURCES = tests/unit/daemon/spmd/template_builder_test.c $(PLAN_RUN)
tests_unit_daemon_spmd_template_builder_test_LDADD = $(spmd_libs)
tests_unit_daemon_plan_plan_test_SOURCES = tests/unit/daemon/plan/plan_test.c $(PLAN_MODEL)
tests_unit_daemon_plan_plan_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_resolve_test_SOURCES = tests/unit/daemon/spmd/resolve_test.c $(MOVE_TEXT)
tests_unit_daemon_spmd_resolve_test_LDADD = $(spmd_libs)
tests_unit_daemon_migrate_state_placement_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_device_schedule_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_deduce_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_shrink_model_test_SOURCES = tests/unit/daemon/spmd/shrink_model_test.c $(PLAN_CASES)
tests_unit_daemon_spmd_shrink_model_test_LDADD = $(spmd_libs)
tests_unit_daemon_migrate_bsr_test_LDADD = tests/lib/libplainbsr.a $(spmd_libs)
tests_unit_daemon_plan_published_test_LDADD = $(spmd_libs)
tests_unit_daemon_spmd_oracle_test_LDADD = $(spmd_libs)
