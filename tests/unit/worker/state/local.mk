shard_fill = tests/unit/worker/state/shard_fill.c tests/unit/worker/state/shard_fill.h
shard_write = tests/unit/worker/state/shard_write.c tests/unit/worker/state/shard_write.h
state_test_lib = tests/unit/worker/state/state_lib.c tests/unit/worker/state/state_lib.h $(shard_write)
state_tests = \
  tests/unit/worker/state/ckpt_found_test \
  tests/unit/worker/state/ckpt_steps_test \
  tests/unit/worker/state/ckpt_test \
  tests/unit/worker/state/ckpt_verify_test \
  tests/unit/worker/state/final_folder_test \
  tests/unit/worker/state/folder_test \
  tests/unit/worker/state/papers_file_test \
  tests/unit/worker/state/region_test \
  tests/unit/worker/state/ckpt_attempt_test \
  tests/unit/worker/state/safetensors_test \
  tests/unit/worker/state/segment_room_test \
  tests/unit/worker/state/segment_spare_test \
  tests/unit/worker/state/segment_test
test_links += $(state_tests)
check_PROGRAMS += tests/unit/worker/state/state_tests
$(state_tests): tests/unit/worker/state/state_tests
	$(LINK_TEST)
tests_unit_worker_state_state_tests_SOURCES = \
  tests/unit/worker/state/ckpt_lib.c tests/unit/worker/state/ckpt_lib.h \
  tests/unit/worker/state/ckpt_found_test.c \
  tests/unit/worker/state/ckpt_steps_test.c \
  tests/unit/worker/state/ckpt_test.c \
  tests/unit/worker/state/ckpt_verify_test.c \
  tests/unit/worker/state/final_folder_test.c \
  tests/unit/worker/state/folder_test.c \
  tests/unit/worker/state/papers_file_test.c $(PAPERS_SAMPLE) \
  tests/unit/worker/state/region_test.c \
  tests/unit/worker/state/ckpt_attempt_test.c \
  tests/unit/worker/state/safetensors_test.c \
  tests/unit/worker/state/segment_room_test.c \
  tests/unit/worker/state/segment_spare_test.c \
  tests/unit/worker/state/segment_test.c \
  $(shard_fill) $(state_test_lib)
tests_unit_worker_state_state_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fallocate \
  -Wl,--wrap=posix_fallocate,--wrap=fsync,--wrap=readdir,--wrap=renameat,--wrap=openat,--wrap=pread \
  -Wl,--wrap=fstatat,--wrap=close,--wrap=fstatvfs,--wrap=madvise,--wrap=munmap
tests_unit_worker_state_state_tests_LDADD = $(TEST_LIBS) $(RUN_LIBS) $(STATE_LIBS) $(HOST_LIBS)
