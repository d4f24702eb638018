# Communication between executors: collectives, threads of one process, sockets.
noinst_LIBRARIES += worker/comm/libcomm.a
worker_comm_libcomm_a_SOURCES = \
  worker/comm/comm.h worker/comm/collectimpl.h \
  worker/comm/collective.c worker/comm/reduce.c worker/comm/runs.c worker/comm/runs.h \
  worker/comm/loop/loopcomm.c worker/comm/loop/loopcomm.h \
  worker/comm/mesh/mesh.h worker/comm/mesh/meshimpl.h worker/comm/mesh/meshmaking.h \
  worker/comm/mesh/meshanswer.c worker/comm/mesh/meshauth.c \
  worker/comm/mesh/meshcall.c worker/comm/mesh/meshio.c \
  worker/comm/mesh/meshjoin.c worker/comm/mesh/meshlisten.c \
  worker/comm/mesh/meshmatch.c worker/comm/mesh/meshops.c \
  worker/comm/mesh/meshseg.c worker/comm/mesh/meshseg.h \
  worker/comm/mesh/meshshm.c worker/comm/mesh/meshstart.c worker/comm/mesh/meshtls.c
# Sums are vectorised; nothing here may reassociate floating point.
worker_comm_libcomm_a_CFLAGS = $(AM_CFLAGS) -O3
COMM_LIBS = worker/comm/libcomm.a $(NET_LIBS)
EXTRA_DIST += worker/comm/README.md
# The same for GPUs; NCCL is looked for when it is wanted.
noinst_LIBRARIES += worker/comm/libncclcomm.a
worker_comm_libncclcomm_a_SOURCES = \
  worker/comm/nccl/ncclabi.h \
  worker/comm/nccl/ncclagree.c \
  worker/comm/nccl/ncclcomm.c worker/comm/nccl/ncclcomm.h \
  worker/comm/nccl/nccllib.c worker/comm/nccl/nccllib.h \
  worker/comm/nccl/nccllink.c worker/comm/nccl/nccllink.h \
  worker/comm/nccl/ncclmake.c worker/comm/nccl/ncclmake.h \
  worker/comm/nccl/ncclneed.c worker/comm/nccl/ncclneed.h \
  worker/comm/nccl/ncclpool.c worker/comm/nccl/ncclpool.h \
  worker/comm/nccl/ncclsend.c \
  worker/comm/nccl/ncclsplit.c \
  worker/comm/nccl/ncclstart.c \
  worker/comm/nccl/ncclsum.c \
  worker/comm/nccl/nccltell.c worker/comm/nccl/nccltell.h
NCCL_LIBS = worker/comm/libncclcomm.a $(COMM_LIBS)
