systemdunitdir = $(prefix)/lib/systemd/system
dist_systemdunit_DATA = systemd/hspmdd.service systemd/hspmd-worker.service
