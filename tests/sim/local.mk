check_LIBRARIES += tests/sim/libsim.a
tests_sim_libsim_a_SOURCES = \
  tests/sim/sim.h \
  tests/sim/simagent.c \
  tests/sim/simcheck.c \
  tests/sim/simckpt.c \
  tests/sim/simcommit.c \
  tests/sim/simdaemon.c \
  tests/sim/simepoch.c \
  tests/sim/simexec.c \
  tests/sim/simfault.c \
  tests/sim/simforge.c \
  tests/sim/simnet.c \
  tests/sim/simplan.c \
  tests/sim/simstep.c \
  tests/sim/simwire.c \
  tests/sim/simworld.c \
  $(MSG_DUMP)

EXTRA_DIST += tests/sim/README.md

SIM_STORY = tests/sim/simstory.c tests/sim/simstory.h
SIM_LIBS = tests/sim/libsim.a worker/executor/libexecutor.a $(CLUSTER_LIBS) $(AGENT_LIBS)
check_PROGRAMS += tests/sim/adopt_test
TESTS += tests/sim/adopt_test
tests_sim_adopt_test_SOURCES = tests/sim/adopt_test.c $(SIM_STORY)
tests_sim_adopt_test_LDADD = $(TEST_LIBS) $(SIM_LIBS)
check_PROGRAMS += tests/sim/stores_test tests/sim/unwell_test tests/sim/random tests/sim/stories_test
TESTS += tests/sim/stores_test tests/sim/unwell_test tests/sim/random tests/sim/stories_test
check_PROGRAMS += tests/sim/due_model_test
TESTS += tests/sim/due_model_test
tests_sim_due_model_test_SOURCES = tests/sim/due_model_test.c tests/sim/due_model.h tests/sim/due_loss.c \
  tests/sim/due_run.c tests/sim/due_step.c tests/sim/due_store.c
tests_sim_due_model_test_LDADD = $(TEST_LIBS) $(BASE_LIBS)
tests_sim_stores_test_SOURCES = tests/sim/stores_test.c $(SIM_STORY)
tests_sim_stores_test_LDADD = $(TEST_LIBS) $(SIM_LIBS)
tests_sim_unwell_test_SOURCES = tests/sim/unwell_test.c $(SIM_STORY)
tests_sim_unwell_test_LDADD = $(TEST_LIBS) $(SIM_LIBS)
tests_sim_random_LDADD = $(SIM_LIBS)
tests_sim_stories_test_SOURCES = tests/sim/stories_test.c $(SIM_STORY)
tests_sim_stories_test_LDADD = $(TEST_LIBS) $(SIM_LIBS)
