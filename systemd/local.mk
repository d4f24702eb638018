systemdunitdir = $(systemdsystemunitdir)
dist_systemdunit_DATA = systemd/hspmdd.service systemd/hspmd-worker.service
sysusersdir = $(prefix)/lib/sysusers.d
dist_sysusers_DATA = systemd/hspmd.conf
