noinst_LIBRARIES += daemon/app/store/libstore.a
daemon_app_store_libstore_a_SOURCES = \
  daemon/app/store/event_line.c daemon/app/store/event_line.h \
  daemon/app/store/first_store.c daemon/app/store/first_store.h \
  daemon/app/store/rebuild.c daemon/app/store/rebuild.h \
  daemon/app/store/restore.c daemon/app/store/restore.h \
  daemon/app/store/state_folder.c daemon/app/store/state_folder.h \
  daemon/app/store/store.c daemon/app/store/store.h \
  daemon/app/store/store_files.c daemon/app/store/store_files.h \
  daemon/app/store/store_schema.c daemon/app/store/store_schema.h \
  daemon/app/store/tensorboard_event.c daemon/app/store/tensorboard_event.h \
  daemon/app/store/tensorboard_file.c daemon/app/store/tensorboard_file.h
