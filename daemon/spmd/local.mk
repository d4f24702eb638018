# The compiler, one room a pass, lowest first. Rooms of one line do not use each other.
include daemon/spmd/sharding/local.mk
include daemon/spmd/reshard/local.mk
include daemon/spmd/schedule/local.mk
include daemon/spmd/lower/local.mk
include daemon/spmd/total/local.mk
include daemon/spmd/codegen/local.mk
include daemon/spmd/verify/local.mk
EXTRA_DIST += daemon/spmd/README.md

# A caller comes before its callees: the linker keeps the order of the rooms.
COMPILER_LIBS = daemon/migrate/libmigrate.a daemon/spmd/verify/libverify.a \
  daemon/spmd/codegen/libcodegen.a daemon/spmd/total/libtotal.a daemon/spmd/lower/liblower.a \
  daemon/spmd/schedule/libschedule.a daemon/spmd/reshard/libreshard.a \
  daemon/spmd/sharding/libsharding.a daemon/plan/libplan.a

# Programs that link the compiler need these behind it.
SPMD_LIBS = $(COMPILER_LIBS) daemon/graph/libgraph.a proto/program/libprogram.a \
  proto/layout/liblayout.a proto/op/libop.a $(TEXT_LIBS)
