# Measurements by hand: make bench. Built by it alone, not by make check.
EXTRA_PROGRAMS = tests/bench/attnbench tests/bench/hashbench tests/bench/stepbench
tests_bench_stepbench_SOURCES = \
  tests/bench/limits.c tests/bench/limits.h tests/bench/stepbench.c
tests_bench_stepbench_CFLAGS = $(AM_CFLAGS) -O3 -ffp-contract=fast
tests_bench_stepbench_LDADD = $(RUN_LIBS)
tests_bench_attnbench_LDADD = $(BACKEND_LIBS) $(BASE_LIBS)
tests_bench_hashbench_SOURCES = \
  tests/bench/hashbench.c tests/bench/limits.c tests/bench/limits.h
tests_bench_hashbench_LDADD = $(BASE_LIBS)
CLEANFILES += tests/bench/attnbench$(EXEEXT) tests/bench/hashbench$(EXEEXT) tests/bench/stepbench$(EXEEXT)
EXTRA_DIST += tests/bench/README.md tests/bench/copies.py tests/bench/cpu_step.py tests/bench/mesh.py

# All-reduces of our mesh, and (where configure found it) of Open MPI: the claim mesh-bandwidth runs
# both.
check_PROGRAMS += tests/bench/meshbench
tests_bench_meshbench_SOURCES = tests/bench/meshbench.c
tests_bench_meshbench_LDADD = $(COMM_LIBS) $(BASE_LIBS)
if HAVE_MPI
check_PROGRAMS += tests/bench/mpibench
endif
tests_bench_mpibench_SOURCES = tests/bench/mpibench.c
tests_bench_mpibench_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
tests_bench_mpibench_LDADD = $(MPI_LIBS)

# Loaded into a program by the CUDA driver: times its kernels for the claim gpu-speed.
if HAVE_CUPTI
check_DATA += tests/bench/kerneltime.so
endif
tests/bench/kerneltime.so: tests/bench/kerneltime.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -D_GNU_SOURCE $(CUPTI_CPPFLAGS) $(AM_CFLAGS) -fPIC -shared $(CFLAGS) \
	  -o $@ $(srcdir)/tests/bench/kerneltime.c -ldl
CLEANFILES += tests/bench/kerneltime.so
EXTRA_DIST += tests/bench/kerneltime.c

bench: all $(EXTRA_PROGRAMS) $(check_PROGRAMS)
	@HSPMD_BUILD='$(abs_top_builddir)' $(srcdir)/tests/bench/cpu_step.py
	@./tests/bench/attnbench 1 2048 4 8 64
	@./tests/bench/hashbench 512
	@HSPMD_BUILD='$(abs_top_builddir)' $(srcdir)/tests/bench/mesh.py
.PHONY: bench

# Plays agents for tests/claims/ten-thousand-agents.
check_PROGRAMS += tests/bench/agents
tests_bench_agents_LDADD = $(NET_LIBS) $(WIRE_LIBS) $(HOST_LIBS)

# The traffic of a published switch: the claim transition-traffic runs it.
check_PROGRAMS += tests/bench/bsrbench
tests_bench_bsrbench_LDADD = tests/lib/libgreedybsr.a $(SPMD_LIBS)

# The compiler's share of a switch.
check_PROGRAMS += tests/bench/compilebench
tests_bench_compilebench_SOURCES = tests/bench/compilebench.c
tests_bench_compilebench_LDADD = $(SPMD_LIBS)

# Switches of state among four executors: the claim switch-bandwidth runs it.
check_PROGRAMS += tests/bench/switchbench
tests_bench_switchbench_SOURCES = tests/bench/switchbench.c \
  tests/unit/worker/executor/executor_world.c tests/unit/worker/executor/executor_world.h
tests_bench_switchbench_LDADD = tests/lib/libmockdev.a $(TEST_LIBS) $(EXECUTOR_LIBS) daemon/app/plans/libplans.a \
  $(PLANNER_LIBS) $(EXEC_LIBS) $(WIRE_LIBS) $(HOST_LIBS)
