# Communication between executors: collectives, threads of one process, sockets.
noinst_LIBRARIES += worker/comm/libcomm.a
worker_comm_libcomm_a_SOURCES = \
  worker/comm/comm.h worker/comm/collective.c \
  worker/comm/loop/loopcomm.c worker/comm/loop/loopcomm.h
# Sums are vectorised; nothing here may reassociate floating point.
worker_comm_libcomm_a_CFLAGS = $(AM_CFLAGS) -O3
COMM_LIBS = worker/comm/libcomm.a $(CRYPTO_LIBS)
EXTRA_DIST += worker/comm/README.md
