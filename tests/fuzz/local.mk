# Fuzz targets. With --enable-fuzz they are libFuzzer programs that `make fuzz` runs; else tests
# that run their seeds. A target's own room first in its LDADD.
check_LIBRARIES += tests/fuzz/libfuzz.a
tests_fuzz_libfuzz_a_SOURCES = \
  tests/fuzz/fuzz.h tests/fuzz/fuzzlib.c tests/fuzz/fuzzinit.c tests/fuzz/seedmain.c \
  tests/fuzz/fuzzconfig.c tests/fuzz/fuzzconfig.h

fuzz_targets = \
  tests/fuzz/fuzz_adopt \
  tests/fuzz/fuzz_ckpt \
  tests/fuzz/fuzz_cluster \
  tests/fuzz/fuzz_daemon \
  tests/fuzz/fuzz_daemon_config \
  tests/fuzz/fuzz_dataset \
  tests/fuzz/fuzz_frame \
  tests/fuzz/fuzz_job \
  tests/fuzz/fuzz_jobrec \
  tests/fuzz/fuzz_msg \
  tests/fuzz/fuzz_package \
  tests/fuzz/fuzz_papers \
  tests/fuzz/fuzz_plan \
  tests/fuzz/fuzz_progfile \
  tests/fuzz/fuzz_program \
  tests/fuzz/fuzz_safetensors \
  tests/fuzz/fuzz_text \
  tests/fuzz/fuzz_tracepart \
  tests/fuzz/fuzz_worker_config \
  tests/fuzz/fuzz_yaml
check_PROGRAMS += $(fuzz_targets)
if !FUZZ
TESTS += $(fuzz_targets)
endif
FUZZ_LIBS = $(FUZZ_ENGINE) tests/fuzz/libfuzz.a
tests_fuzz_fuzz_adopt_SOURCES = tests/fuzz/fuzz_adopt.c $(ADOPT_SAMPLE)
tests_fuzz_fuzz_adopt_LDADD = $(FUZZ_LIBS) $(DAEMONAPP_LIBS)
tests_fuzz_fuzz_ckpt_SOURCES = tests/fuzz/fuzz_ckpt.c $(shard_write)
tests_fuzz_fuzz_ckpt_LDADD = $(FUZZ_LIBS) $(STATE_LIBS)
tests_fuzz_fuzz_cluster_LDADD = $(FUZZ_LIBS) $(PLANNER_LIBS)
tests_fuzz_fuzz_daemon_SOURCES = tests/fuzz/fuzz_daemon.c \
  tests/fuzz/fuzzmsg.c tests/fuzz/fuzzmsg.h
tests_fuzz_fuzz_daemon_LDADD = $(FUZZ_LIBS) $(CLUSTER_LIBS)
tests_fuzz_fuzz_daemon_config_LDADD = $(FUZZ_LIBS) $(DAEMONAPP_LIBS)
tests_fuzz_fuzz_dataset_LDADD = $(FUZZ_LIBS) worker/data/libdata.a $(BASE_LIBS)
tests_fuzz_fuzz_frame_LDADD = $(FUZZ_LIBS) $(WIRE_LIBS)
tests_fuzz_fuzz_job_LDADD = $(FUZZ_LIBS) $(PLANNER_LIBS)
tests_fuzz_fuzz_jobrec_LDADD = $(FUZZ_LIBS) $(DAEMONAPP_LIBS)
tests_fuzz_fuzz_msg_SOURCES = tests/fuzz/fuzz_msg.c $(MSG_DUMP)
tests_fuzz_fuzz_msg_LDADD = $(FUZZ_LIBS) $(WIRE_LIBS)
tests_fuzz_fuzz_package_SOURCES = tests/fuzz/fuzz_package.c $(PKG_SAMPLE)
tests_fuzz_fuzz_package_LDADD = $(FUZZ_LIBS) proto/wire/libwire.a proto/layout/liblayout.a \
  proto/op/libop.a $(CJSON_LIBS) $(BASE_LIBS)
tests_fuzz_fuzz_plan_SOURCES = tests/fuzz/fuzz_plan.c $(PLAN_CASES)
tests_fuzz_fuzz_plan_LDADD = $(FUZZ_LIBS) $(TEST_LIBS) $(SPMD_LIBS)
tests_fuzz_fuzz_progfile_SOURCES = tests/fuzz/fuzz_progfile.c $(TINY_PROG)
tests_fuzz_fuzz_progfile_LDADD = $(FUZZ_LIBS) $(PROGRAM_LIBS)
tests_fuzz_fuzz_program_SOURCES = tests/fuzz/fuzz_program.c $(TINY_PROG)
tests_fuzz_fuzz_program_LDADD = $(FUZZ_LIBS) $(RUN_LIBS)
tests_fuzz_fuzz_safetensors_LDADD = $(FUZZ_LIBS) $(STATE_LIBS)
tests_fuzz_fuzz_text_LDADD = $(FUZZ_LIBS) $(DAEMONAPP_LIBS)
tests_fuzz_fuzz_papers_SOURCES = tests/fuzz/fuzz_papers.c $(PAPERS_SAMPLE)
tests_fuzz_fuzz_papers_LDADD = $(FUZZ_LIBS) $(WIRE_LIBS)
tests_fuzz_fuzz_tracepart_SOURCES = tests/fuzz/fuzz_tracepart.c $(PART_SAMPLE)
tests_fuzz_fuzz_tracepart_LDADD = $(FUZZ_LIBS) $(DAEMONAPP_LIBS)
tests_fuzz_fuzz_worker_config_LDADD = $(FUZZ_LIBS) $(WORKERCONFIG_LIBS)
tests_fuzz_fuzz_yaml_LDADD = $(FUZZ_LIBS) $(TEXT_LIBS)

# Every target for FUZZ_SECONDS seconds, two at once; new inputs stay in fuzz-corpus.
FUZZ_SECONDS = 60
FUZZ_JOBS = 2
fuzz: $(fuzz_targets)
if FUZZ
	@HSPMD_SRC='$(abs_top_srcdir)' FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_JOBS='$(FUZZ_JOBS)' \
	  $(SHELL) $(top_srcdir)/tests/fuzz/fuzz.sh $(fuzz_targets)
else
	@echo "make fuzz needs a tree of its own: ../configure --enable-fuzz CC=clang" >&2; exit 1
endif
print-fuzz:
	@for t in $(fuzz_targets); do echo $$t; done
.PHONY: fuzz print-fuzz
EXTRA_DIST += tests/fuzz/fuzz.sh $(wildcard $(srcdir)/tests/fuzz/seeds/*/*)
