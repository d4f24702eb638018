# Communication between executors: collectives, threads of one process, sockets.
noinst_LIBRARIES += worker/comm/libcomm.a
worker_comm_libcomm_a_SOURCES = \
  worker/comm/collective.c worker/comm/collective.h \
  worker/comm/collective_impl.h \
  worker/comm/comm.h \
  worker/comm/loop/loop_comm.c worker/comm/loop/loop_comm.h \
  worker/comm/mesh/mesh.h \
  worker/comm/mesh/mesh_answer.c worker/comm/mesh/mesh_answer.h \
  worker/comm/mesh/mesh_auth.c worker/comm/mesh/mesh_auth.h \
  worker/comm/mesh/mesh_beat.c worker/comm/mesh/mesh_beat.h \
  worker/comm/mesh/mesh_bell.c worker/comm/mesh/mesh_bell.h \
  worker/comm/mesh/mesh_call.c worker/comm/mesh/mesh_call.h \
  worker/comm/mesh/mesh_header.c worker/comm/mesh/mesh_header.h \
  worker/comm/mesh/mesh_impl.h \
  worker/comm/mesh/mesh_io.c worker/comm/mesh/mesh_io.h \
  worker/comm/mesh/mesh_join.c worker/comm/mesh/mesh_join.h \
  worker/comm/mesh/mesh_links.c worker/comm/mesh/mesh_links.h \
  worker/comm/mesh/mesh_listen.c worker/comm/mesh/mesh_listen.h \
  worker/comm/mesh/mesh_making.c worker/comm/mesh/mesh_making.h \
  worker/comm/mesh/mesh_match.c worker/comm/mesh/mesh_match.h \
  worker/comm/mesh/mesh_ops.c worker/comm/mesh/mesh_ops.h \
  worker/comm/mesh/mesh_poll.c worker/comm/mesh/mesh_poll.h \
  worker/comm/mesh/mesh_seg.c worker/comm/mesh/mesh_seg.h \
  worker/comm/mesh/mesh_shm.c worker/comm/mesh/mesh_shm.h \
  worker/comm/mesh/mesh_start.c worker/comm/mesh/mesh_start.h \
  worker/comm/mesh/mesh_stand.c worker/comm/mesh/mesh_stand.h \
  worker/comm/mesh/mesh_tls.c worker/comm/mesh/mesh_tls.h \
  worker/comm/mesh/mesh_yield.c worker/comm/mesh/mesh_yield.h \
  worker/comm/reduce.c worker/comm/reduce.h \
  worker/comm/runs.c worker/comm/runs.h
# Sums are vectorised; nothing here may reassociate floating point.
worker_comm_libcomm_a_CFLAGS = $(AM_CFLAGS) -O3
COMM_LIBS = worker/comm/libcomm.a $(NET_LIBS)
EXTRA_DIST += worker/comm/README.md worker/comm/mesh/README.md worker/comm/mesh/PROTOCOL.md \
  worker/comm/mesh/DECISIONS.md worker/comm/nccl/README.md worker/comm/nccl/DECISIONS.md
# The same for GPUs; NCCL is looked for when it is wanted.
noinst_LIBRARIES += worker/comm/libncclcomm.a
worker_comm_libncclcomm_a_SOURCES = \
  worker/comm/nccl/nccl_abi.h \
  worker/comm/nccl/nccl_abort.c worker/comm/nccl/nccl_abort.h \
  worker/comm/nccl/nccl_agree.c worker/comm/nccl/nccl_agree.h \
  worker/comm/nccl/nccl_comm.c worker/comm/nccl/nccl_comm.h \
  worker/comm/nccl/nccl_end.c worker/comm/nccl/nccl_end.h \
  worker/comm/nccl/nccl_lib.c worker/comm/nccl/nccl_lib.h \
  worker/comm/nccl/nccl_link.c worker/comm/nccl/nccl_link.h \
  worker/comm/nccl/nccl_make.c worker/comm/nccl/nccl_make.h \
  worker/comm/nccl/nccl_need.c worker/comm/nccl/nccl_need.h \
  worker/comm/nccl/nccl_pool.c worker/comm/nccl/nccl_pool.h \
  worker/comm/nccl/nccl_send.c worker/comm/nccl/nccl_send.h \
  worker/comm/nccl/nccl_split.c worker/comm/nccl/nccl_split.h \
  worker/comm/nccl/nccl_stage.c worker/comm/nccl/nccl_stage.h \
  worker/comm/nccl/nccl_start.c worker/comm/nccl/nccl_start.h \
  worker/comm/nccl/nccl_sum.c worker/comm/nccl/nccl_sum.h \
  worker/comm/nccl/nccl_tell.c worker/comm/nccl/nccl_tell.h
NCCL_LIBS = worker/comm/libncclcomm.a $(COMM_LIBS)
