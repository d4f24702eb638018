# What the shells of all programs share: log, notices, signals, files.
noinst_LIBRARIES += proto/host/libhost.a
proto_host_libhost_a_SOURCES = \
  proto/host/dlsyms.c proto/host/dlsyms.h \
  proto/host/fileio.c proto/host/fileio.h \
  proto/host/nofile.c proto/host/nofile.h \
  proto/host/log.c proto/host/log.h \
  proto/host/sdnotify.c proto/host/sdnotify.h \
  proto/host/uvsignal.c proto/host/uvsignal.h
HOST_LIBS = proto/host/libhost.a $(SYSTEMD_LIBS) $(UV_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/host/README.md
