noinst_HEADERS += daemon/spmd/compile.h daemon/spmd/deduce.h daemon/spmd/plan.h \
  daemon/spmd/resolve.h daemon/spmd/switch.h
