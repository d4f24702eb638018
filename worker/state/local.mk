noinst_LIBRARIES += worker/state/libstate.a
worker_state_libstate_a_SOURCES = \
  worker/state/box_hash.c worker/state/box_hash.h \
  worker/state/ckpt.c worker/state/ckpt.h \
  worker/state/ckpt_files.c worker/state/ckpt_files.h \
  worker/state/ckpt_found.c worker/state/ckpt_found.h \
  worker/state/ckpt_manifest.c worker/state/ckpt_manifest.h \
  worker/state/ckpt_owner.c worker/state/ckpt_owner.h \
  worker/state/ckpt_read.c worker/state/ckpt_read.h \
  worker/state/ckpt_shard.c worker/state/ckpt_shard.h \
  worker/state/ckpt_sign.c worker/state/ckpt_sign.h \
  worker/state/ckpt_steps.c worker/state/ckpt_steps.h \
  worker/state/ckpt_verify.c worker/state/ckpt_verify.h \
  worker/state/final_folder.c worker/state/final_folder.h \
  worker/state/folder.c worker/state/folder.h \
  worker/state/io_error.c worker/state/io_error.h \
  worker/state/json_text.c worker/state/json_text.h \
  worker/state/kept.c worker/state/kept.h \
  worker/state/papers_file.c worker/state/papers_file.h \
  worker/state/part_sums.c worker/state/part_sums.h \
  worker/state/region.c worker/state/region.h \
  worker/state/safetensors.h \
  worker/state/safetensors_read.c worker/state/safetensors_read.h \
  worker/state/safetensors_write.c worker/state/safetensors_write.h \
  worker/state/segment.c worker/state/segment.h \
  worker/state/segment_dir.c worker/state/segment_dir.h \
  worker/state/segment_free.c worker/state/segment_free.h \
  worker/state/segment_key.c worker/state/segment_key.h \
  worker/state/segment_name.c worker/state/segment_name.h \
  worker/state/segment_room.c worker/state/segment_room.h \
  worker/state/segment_spare.c worker/state/segment_spare.h \
  worker/state/segment_verify.c worker/state/segment_verify.h \
  worker/state/shards.c worker/state/shards.h
worker_state_libstate_a_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
EXTRA_DIST += worker/state/README.md worker/state/DECISIONS.md worker/state/FIGURES.md

# Programs that link libstate need these libraries behind it.
STATE_LIBS = worker/state/libstate.a proto/wire/libwire.a proto/host/libhost.a proto/program/libprogram.a proto/layout/liblayout.a proto/op/libop.a $(CJSON_LIBS) $(BASE_LIBS)
