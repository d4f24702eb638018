noinst_LIBRARIES += daemon/spmd/codegen/libcodegen.a
daemon_spmd_codegen_libcodegen_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_codegen_libcodegen_a_SOURCES = \
  daemon/spmd/codegen/compile.c daemon/spmd/codegen/compile.h \
  daemon/spmd/codegen/device_schedule.c daemon/spmd/codegen/device_schedule.h \
  daemon/spmd/codegen/specialize.c daemon/spmd/codegen/specialize.h \
  daemon/spmd/codegen/template_builder.c daemon/spmd/codegen/template_builder.h \
  daemon/spmd/codegen/template_cache.c daemon/spmd/codegen/template_cache.h
