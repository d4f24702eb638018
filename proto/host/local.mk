# Builds the code that the shells (the impure parts) of all programs share: the log, notices to the
# service manager, signals and files.
noinst_LIBRARIES += proto/host/libhost.a
proto_host_libhost_a_SOURCES = \
  proto/host/dl_symbols.c proto/host/dl_symbols.h \
  proto/host/file_io.c proto/host/file_io.h \
  proto/host/open_files_limit.c proto/host/open_files_limit.h \
  proto/host/log.c proto/host/log.h \
  proto/host/sd_notify.c proto/host/sd_notify.h \
  proto/host/uv_signal.c proto/host/uv_signal.h
HOST_LIBS = proto/host/libhost.a $(SYSTEMD_LIBS) $(UV_LIBS) $(BASE_LIBS)
EXTRA_DIST += proto/host/README.md
