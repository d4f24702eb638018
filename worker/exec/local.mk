# The engine: runs programs over a backend and a transport.
noinst_LIBRARIES += worker/exec/libexec.a
worker_exec_libexec_a_SOURCES = \
  worker/exec/device_queue.c worker/exec/device_queue.h \
  worker/exec/dry_transport.c worker/exec/dry_transport.h \
  worker/exec/engine.c worker/exec/engine.h \
  worker/exec/engine_impl.h \
  worker/exec/entry.c worker/exec/entry.h \
  worker/exec/fuse_epilogue.c worker/exec/fuse_epilogue.h \
  worker/exec/fuse_launch.c worker/exec/fuse_launch.h \
  worker/exec/interp.c worker/exec/interp.h \
  worker/exec/lone_update.c worker/exec/lone_update.h \
  worker/exec/move_cells.c worker/exec/move_cells.h \
  worker/exec/move_group.c worker/exec/move_group.h \
  worker/exec/moves.c worker/exec/moves.h \
  worker/exec/moves_impl.h \
  worker/exec/operand.c worker/exec/operand.h \
  worker/exec/output_route.c worker/exec/output_route.h \
  worker/exec/pace.c worker/exec/pace.h \
  worker/exec/queues.c worker/exec/queues.h \
  worker/exec/record.c worker/exec/record.h \
  worker/exec/replay.c worker/exec/replay.h \
  worker/exec/staging.c worker/exec/staging.h \
  worker/exec/state_init.c worker/exec/state_init.h \
  worker/exec/state_watch.c worker/exec/state_watch.h \
  worker/exec/step_trace.c worker/exec/step_trace.h \
  worker/exec/tensor_uses.c worker/exec/tensor_uses.h \
  worker/exec/vote.c worker/exec/vote.h \
  worker/exec/voting.c worker/exec/voting.h
EXTRA_DIST += worker/exec/README.md worker/exec/DECISIONS.md worker/exec/DEVICE.md

# Programs that link libexec need these libraries after it.
EXEC_LIBS = worker/exec/libexec.a worker/state/libstate.a $(COMM_LIBS) \
  worker/data/libdata.a worker/backend/libbackend.a worker/backend/libgemm.a \
  proto/program/libprogram.a \
  proto/layout/liblayout.a proto/op/libop.a $(OPENBLAS_LIBS) $(CJSON_LIBS) $(CRYPTO_LIBS) \
  $(BASE_LIBS)
