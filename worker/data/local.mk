# Texts as devices read them.
noinst_LIBRARIES += worker/data/libdata.a
worker_data_libdata_a_SOURCES = worker/data/textfile.c worker/data/textfile.h
EXTRA_DIST += worker/data/README.md

# What links libdata needs these behind it.
DATA_LIBS = worker/data/libdata.a $(PROGRAM_LIBS)
