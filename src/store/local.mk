noinst_LTLIBRARIES += libzl_store.la
libzl_store_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(LIBURING_CFLAGS) $(JANSSON_CFLAGS)
libzl_store_la_SOURCES = \
	src/store/checkpoint.h \
	src/store/generation.h \
	src/store/run.c src/store/run.h \
	src/store/spill.c src/store/spill.h \
	src/store/transfer.c src/store/transfer.h
