# Data sets as devices read them.
noinst_LIBRARIES += worker/data/libdata.a
worker_data_libdata_a_SOURCES = worker/data/data_cache.c \
    worker/data/data_cache.h worker/data/data_watch.c worker/data/data_watch.h worker/data/dataset.c worker/data/dataset.h \
  worker/data/documents.c worker/data/documents.h worker/data/formats.c \
    worker/data/formats.h worker/data/load.c worker/data/load.h worker/data/pattern.c worker/data/pattern.h \
    worker/data/synthetic.c worker/data/synthetic.h
EXTRA_DIST += worker/data/README.md

# Programs that link libdata need these behind it.
DATA_LIBS = worker/data/libdata.a $(PROGRAM_LIBS)
