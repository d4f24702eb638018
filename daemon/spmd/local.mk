noinst_LIBRARIES += daemon/spmd/libspmd.a
daemon_spmd_libspmd_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_libspmd_a_SOURCES = \
  daemon/spmd/agree.c \
  daemon/spmd/bsr.c daemon/spmd/bsrcell.c daemon/spmd/bsrcut.c daemon/spmd/bsrint.h \
  daemon/spmd/bsrleg.c daemon/spmd/bsrorder.c daemon/spmd/bsrroute.c daemon/spmd/bsr.h \
  daemon/spmd/celltasks.c \
  daemon/spmd/compile.c daemon/spmd/compile.h \
  daemon/spmd/complete.c daemon/spmd/complete.h \
  daemon/spmd/coverannot.c daemon/spmd/coverannot.h \
  daemon/spmd/deadlock.c daemon/spmd/deadlock.h \
  daemon/spmd/drawing.c daemon/spmd/drawing.h \
  daemon/spmd/findstreams.c daemon/spmd/findstreams.h \
  daemon/spmd/gatherpart.c \
  daemon/spmd/deduce.c daemon/spmd/deduce.h \
  daemon/spmd/home.c daemon/spmd/home.h \
  daemon/spmd/homebox.c daemon/spmd/homebox.h \
  daemon/spmd/layoutplan.c \
  daemon/spmd/listreshards.c daemon/spmd/listreshards.h \
  daemon/spmd/lower.c \
  daemon/spmd/meeting.c daemon/spmd/meeting.h \
  daemon/spmd/memory.c daemon/spmd/memory.h \
  daemon/spmd/method.c daemon/spmd/method.h daemon/spmd/methodtext.c \
  daemon/spmd/mould.c daemon/spmd/mould.h daemon/spmd/mouldstore.c daemon/spmd/mouldstore.h \
  daemon/spmd/movecost.c daemon/spmd/movelist.c \
  daemon/spmd/offload.c \
  daemon/spmd/order.c daemon/spmd/order.h \
  daemon/spmd/param_owners.c daemon/spmd/param_owners.h \
  daemon/spmd/parampart.c daemon/spmd/parampost.c \
  daemon/spmd/paramslot.c daemon/spmd/paramslot.h \
  daemon/spmd/pipelines.c daemon/spmd/pipelines.h \
  daemon/spmd/recompute.c \
  daemon/spmd/resolve.c daemon/spmd/resolve.h daemon/spmd/resolveint.h \
  daemon/spmd/resolvesum.c \
  daemon/spmd/ringattn.c daemon/spmd/ringattn.h \
  daemon/spmd/schedule.c daemon/spmd/schedule.h \
  daemon/spmd/slots.c daemon/spmd/slots.h \
  daemon/spmd/small.c daemon/spmd/small.h \
  daemon/spmd/smallhome.c daemon/spmd/smallhome.h \
  daemon/spmd/specialize.c daemon/spmd/specialize.h \
  daemon/spmd/stagecode.c daemon/spmd/stagecode.h \
  daemon/spmd/stagelayout.c daemon/spmd/stagelayout.h \
  daemon/spmd/sumcut.c daemon/spmd/sumplace.c daemon/spmd/sumplace.h \
  daemon/spmd/switch.c daemon/spmd/switch.h \
  daemon/spmd/timeline.c daemon/spmd/timeline.h \
  daemon/spmd/unitruns.c \
  daemon/spmd/usegroups.c daemon/spmd/usegroups.h \
  daemon/spmd/waits.c daemon/spmd/waits.h \
  daemon/spmd/wgrad.c \
  daemon/spmd/workshares.c daemon/spmd/workshares.h
EXTRA_DIST += daemon/spmd/README.md

# What links libspmd needs these behind it.
COMPILER_LIBS = daemon/spmd/libspmd.a daemon/plan/libplan.a
SPMD_LIBS = $(COMPILER_LIBS) daemon/graph/libgraph.a proto/program/libprogram.a \
  proto/layout/liblayout.a proto/op/libop.a $(TEXT_LIBS)
