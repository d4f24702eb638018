noinst_HEADERS += daemon/graph/autodiff.h daemon/graph/graph.h
