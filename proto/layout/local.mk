noinst_HEADERS += proto/layout/annot.h proto/layout/cluster_desc.h proto/layout/cover.h
