noinst_LIBRARIES += proto/layout/liblayout.a
proto_layout_liblayout_a_SOURCES = \
  proto/layout/annot.c proto/layout/annot.h \
  proto/layout/annot_text.c proto/layout/annot_text.h \
  proto/layout/box.c proto/layout/box.h \
  proto/layout/canon.c proto/layout/canon.h \
  proto/layout/cluster_desc.h \
  proto/layout/cover.c proto/layout/cover.h \
  proto/layout/cover_cells.c proto/layout/cover_cells.h \
  proto/layout/cut_shares.c proto/layout/cut_shares.h \
  proto/layout/interleave.c proto/layout/interleave.h \
  proto/layout/rank_set.h
