noinst_LTLIBRARIES += libzl_store.la
libzl_store_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(LIBURING_CFLAGS) $(JANSSON_CFLAGS)
libzl_store_la_SOURCES = \
	src/store/checkpoint.c src/store/checkpoint.h src/store/checkpoint_impl.h \
	src/store/commit.c \
	src/store/denied.c src/store/denied.h \
	src/store/disk.c src/store/disk.h \
	src/store/disk_plain.c \
	src/store/disk_uring.c \
	src/store/format.c src/store/format.h \
	src/store/generation.c src/store/generation.h src/store/generation_impl.h \
	src/store/generations.c \
	src/store/hash.h \
	src/store/append.c src/store/append.h \
	src/store/leftovers.c src/store/leftovers.h \
	src/store/retain.c \
	src/store/run.c src/store/run.h \
	src/store/spill.c src/store/spill.h \
	src/store/transfer.c src/store/transfer.h \
	src/store/writer.c
