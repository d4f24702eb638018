# Makes one test program for each room, and for each way to link the room. A symbolic link named
# like a test file runs the tests of that file (tests/lib/testmain.c).
test_links =
LINK_TEST = $(AM_V_GEN)rm -f $@ && ln -s $$(basename $<) $@
include tests/unit/proto/base/local.mk
include tests/unit/proto/text/local.mk
include tests/unit/proto/op/local.mk
include tests/unit/proto/layout/local.mk
include tests/unit/proto/program/local.mk
include tests/unit/proto/wire/local.mk
include tests/unit/proto/host/local.mk
include tests/unit/proto/net/local.mk
include tests/unit/daemon/graph/local.mk
include tests/unit/daemon/plan/local.mk
include tests/unit/daemon/spmd/local.mk
include tests/unit/daemon/migrate/local.mk
include tests/unit/daemon/lp/local.mk
include tests/unit/daemon/planner/local.mk
include tests/unit/daemon/cluster/local.mk
include tests/unit/daemon/app/local.mk
include tests/unit/daemon/ctl/local.mk
include tests/unit/worker/data/local.mk
include tests/unit/worker/backend/local.mk
include tests/unit/worker/cuda/local.mk
include tests/unit/worker/comm/local.mk
include tests/unit/worker/state/local.mk
include tests/unit/worker/exec/local.mk
include tests/unit/worker/agent/local.mk
include tests/unit/worker/run/local.mk
include tests/unit/worker/executor/local.mk
include tests/unit/worker/probe/local.mk
include tests/unit/worker/app/local.mk
include tests/unit/claims/local.mk
include tests/unit/scripts/local.mk
include tests/unit/oom/local.mk
check_SCRIPTS += $(test_links)
TESTS += $(test_links)
CLEANFILES += $(test_links)
