# Whole programs against each other, on loopback.
TESTS += tests/integ/abuse.py tests/integ/agent.py tests/integ/ctl.py tests/integ/cursor.py tests/integ/data.py tests/integ/due.py tests/integ/elastic.py tests/integ/folder.py tests/integ/formats.py tests/integ/gathered.py tests/integ/gpu.py tests/integ/gpuhealth.py tests/integ/join.py tests/integ/keeper.py tests/integ/links.py tests/integ/kept.py tests/integ/manual.py tests/integ/nccltls.py tests/integ/nodecheck.py tests/integ/onegpu.py tests/integ/ownjob.py tests/integ/pool.py tests/integ/relays.py tests/integ/reload.py tests/integ/resume.py tests/integ/service.py tests/integ/slow.py tests/integ/stores.py tests/integ/tls.py tests/integ/trace.py tests/integ/train.py tests/integ/units.sh tests/integ/versions.py tests/integ/watch.py
# The folder for a machine with a GPU; skipped without nvcc.
TESTS += tests/integ/gpubundle.py
# A store that is lost.
TESTS += tests/integ/adopt.py

# Programs of the next version of the protocol, for versions.py: the range of versions is theirs,
# all else is ours.
next_programs = tests/integ/next/hspmdd tests/integ/next/hspmdctl tests/integ/next/hspmd-worker
check_PROGRAMS += $(next_programs)
tests/integ/versions.log: $(next_programs)
NEXT_CPPFLAGS = $(AM_CPPFLAGS) -DHSP_PROTO_VERSION=19 -DHSP_PROTO_OLDEST=14
tests_integ_next_hspmdd_SOURCES = daemon/app/hspmdd.c proto/wire/protocol.c
tests_integ_next_hspmdd_CPPFLAGS = $(NEXT_CPPFLAGS)
tests_integ_next_hspmdd_LDADD = $(hspmdd_LDADD)
tests_integ_next_hspmdctl_SOURCES = daemon/ctl/main.c proto/wire/protocol.c
tests_integ_next_hspmdctl_CPPFLAGS = $(NEXT_CPPFLAGS)
tests_integ_next_hspmdctl_LDADD = $(hspmdctl_LDADD)
tests_integ_next_hspmd_worker_SOURCES = worker/app/worker_main.c proto/wire/protocol.c
tests_integ_next_hspmd_worker_CPPFLAGS = $(NEXT_CPPFLAGS)
tests_integ_next_hspmd_worker_LDADD = $(hspmd_worker_LDADD)
