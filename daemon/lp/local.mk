noinst_LIBRARIES += daemon/lp/liblp.a
daemon_lp_liblp_a_SOURCES = \
  daemon/lp/lp.c daemon/lp/lp.h \
  daemon/lp/lp_model.h \
  daemon/lp/solve.c daemon/lp/solve.h
LP_LIBS = daemon/lp/liblp.a $(GLPK_LIBS)
EXTRA_DIST += daemon/lp/README.md
