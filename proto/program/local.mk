# Programs: templates, bindings, files, step sheets. Pure.
noinst_LIBRARIES += proto/program/libprogram.a
proto_program_libprogram_a_SOURCES = \
  proto/program/binding_codec.c proto/program/binding_codec.h \
  proto/program/corpus.c proto/program/corpus.h \
  proto/program/data_cursor.c proto/program/data_cursor.h \
  proto/program/micro_size.c proto/program/micro_size.h \
  proto/program/move_name.c proto/program/move_name.h \
  proto/program/pack.c proto/program/pack.h \
  proto/program/pool.c proto/program/pool.h \
  proto/program/program.h \
  proto/program/program_check.c proto/program/program_check.h \
  proto/program/program_dump.c proto/program/program_dump.h \
  proto/program/program_file.c proto/program/program_file.h \
  proto/program/program_io.c proto/program/program_io.h \
  proto/program/sheet.c proto/program/sheet.h \
  proto/program/template_codec.c proto/program/template_codec.h
EXTRA_DIST += proto/program/README.md

# Programs that link libprogram need these behind it.
PROGRAM_LIBS = proto/program/libprogram.a proto/layout/liblayout.a proto/op/libop.a $(BASE_LIBS)
