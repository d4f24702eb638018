# Measurements by hand: make bench. Built by it alone, not by make check.
EXTRA_PROGRAMS = tests/bench/stepbench
tests_bench_stepbench_SOURCES = \
  tests/bench/limits.c tests/bench/limits.h tests/bench/stepbench.c
tests_bench_stepbench_CFLAGS = $(AM_CFLAGS) -O3 -ffp-contract=fast
tests_bench_stepbench_LDADD = $(WORKERAPP_LIBS)
CLEANFILES += tests/bench/stepbench$(EXEEXT)
EXTRA_DIST += tests/bench/README.md tests/bench/cpu_step.py

bench: all tests/bench/stepbench$(EXEEXT)
	@HSPMD_BUILD='$(abs_top_builddir)' $(srcdir)/tests/bench/cpu_step.py
.PHONY: bench
