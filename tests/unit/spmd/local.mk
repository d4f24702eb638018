spmd_tests = \
  tests/unit/spmd/bf16plan_test \
  tests/unit/spmd/bsr_test \
  tests/unit/spmd/compile_test \
  tests/unit/spmd/complete_test \
  tests/unit/spmd/cutplace_test \
  tests/unit/spmd/deduce_test \
  tests/unit/spmd/explain_test \
  tests/unit/spmd/findstreams_test \
  tests/unit/spmd/gather_test \
  tests/unit/spmd/groups_test \
  tests/unit/spmd/method_test \
  tests/unit/spmd/mould_test \
  tests/unit/spmd/drawing_test \
  tests/unit/spmd/oracle_test \
  tests/unit/spmd/order_test \
  tests/unit/spmd/plan_test \
  tests/unit/spmd/published_test \
  tests/unit/spmd/resolve_test \
  tests/unit/spmd/ring_test \
  tests/unit/spmd/schedule_test \
  tests/unit/spmd/small_test \
  tests/unit/spmd/sumplace_test \
  tests/unit/spmd/switch_test
check_PROGRAMS += $(spmd_tests)
TESTS += $(spmd_tests)
PLAN_CASES = tests/unit/spmd/plancases.c tests/unit/spmd/plancases.h
PLAN_MODEL = tests/unit/spmd/planmodel.c tests/unit/spmd/planmodel.h
spmd_libs = $(TEST_LIBS) $(SPMD_LIBS)
PLAN_RUN = tests/unit/spmd/planrun.c tests/unit/spmd/planrun.h \
  tests/unit/spmd/machine.c tests/unit/spmd/machine.h \
  tests/unit/spmd/machinestate.c tests/unit/spmd/machineimpl.h $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_spmd_compile_test_SOURCES = tests/unit/spmd/compile_test.c $(PLAN_RUN)
tests_unit_spmd_bf16plan_test_SOURCES = tests/unit/spmd/bf16plan_test.c $(PLAN_RUN)
tests_unit_spmd_bf16plan_test_LDADD = $(spmd_libs)
tests_unit_spmd_gather_test_SOURCES = tests/unit/spmd/gather_test.c $(PLAN_RUN)
tests_unit_spmd_gather_test_LDADD = $(spmd_libs)
tests_unit_spmd_groups_test_SOURCES = tests/unit/spmd/groups_test.c $(PLAN_RUN)
tests_unit_spmd_groups_test_LDADD = $(spmd_libs)
tests_unit_spmd_ring_test_SOURCES = tests/unit/spmd/ring_test.c $(PLAN_RUN)
tests_unit_spmd_ring_test_LDADD = $(spmd_libs)
tests_unit_spmd_complete_test_SOURCES = tests/unit/spmd/complete_test.c $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_spmd_complete_test_LDADD = $(spmd_libs)
tests_unit_spmd_compile_test_LDADD = $(spmd_libs)
PLACE_COST = tests/unit/spmd/placecost.c tests/unit/spmd/placecost.h $(PLAN_MODEL)
tests_unit_spmd_cutplace_test_SOURCES = tests/unit/spmd/cutplace_test.c $(PLACE_COST) $(PLAN_CASES)
tests_unit_spmd_cutplace_test_LDADD = $(spmd_libs)
tests_unit_spmd_sumplace_test_SOURCES = tests/unit/spmd/sumplace_test.c $(PLACE_COST) $(PLAN_CASES)
tests_unit_spmd_sumplace_test_LDADD = $(spmd_libs)
tests_unit_spmd_explain_test_SOURCES = tests/unit/spmd/explain_test.c $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_spmd_explain_test_LDADD = $(spmd_libs)
tests_unit_spmd_findstreams_test_SOURCES = tests/unit/spmd/findstreams_test.c \
  tests/unit/spmd/useform.c tests/unit/spmd/useform.h $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_spmd_findstreams_test_LDADD = $(spmd_libs)
tests_unit_spmd_drawing_test_LDADD = $(spmd_libs) $(CJSON_LIBS)
tests_unit_spmd_order_test_LDADD = $(spmd_libs)
MOVE_TEXT = tests/unit/spmd/movetext.c tests/unit/spmd/movetext.h
tests_unit_spmd_method_test_SOURCES = tests/unit/spmd/method_test.c $(MOVE_TEXT)
tests_unit_spmd_method_test_LDADD = $(spmd_libs)
tests_unit_spmd_mould_test_SOURCES = tests/unit/spmd/mould_test.c $(PLAN_RUN)
tests_unit_spmd_mould_test_LDADD = $(spmd_libs)
tests_unit_spmd_plan_test_SOURCES = tests/unit/spmd/plan_test.c $(PLAN_MODEL)
tests_unit_spmd_plan_test_LDADD = $(spmd_libs)
tests_unit_spmd_resolve_test_SOURCES = tests/unit/spmd/resolve_test.c $(MOVE_TEXT)
tests_unit_spmd_resolve_test_LDADD = $(spmd_libs)
tests_unit_spmd_switch_test_LDADD = $(spmd_libs)
tests_unit_spmd_schedule_test_LDADD = $(spmd_libs)
tests_unit_spmd_deduce_test_LDADD = $(spmd_libs)
tests_unit_spmd_small_test_SOURCES = tests/unit/spmd/small_test.c $(PLAN_CASES)
tests_unit_spmd_small_test_LDADD = $(spmd_libs)
tests_unit_spmd_bsr_test_LDADD = tests/lib/libplainbsr.a $(spmd_libs)
tests_unit_spmd_published_test_LDADD = $(spmd_libs)
tests_unit_spmd_oracle_test_LDADD = $(spmd_libs)
