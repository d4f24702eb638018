noinst_LIBRARIES += daemon/graph/libgraph.a
daemon_graph_libgraph_a_SOURCES = \
  daemon/graph/autodiff.c daemon/graph/autodiff.h \
  daemon/graph/builder.c daemon/graph/builder.h \
  daemon/graph/family_gpt.c daemon/graph/family_gpt.h \
  daemon/graph/family_llama.c daemon/graph/family_llama.h \
  daemon/graph/family_mlp.c daemon/graph/family_mlp.h \
  daemon/graph/graph.c daemon/graph/graph.h \
  daemon/graph/graph_build.c daemon/graph/graph_build.h \
  daemon/graph/train_spec.h
