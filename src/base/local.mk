noinst_LTLIBRARIES += libzl_base.la
libzl_base_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libzl_base_la_SOURCES = \
	src/base/arena.c src/base/arena.h \
	src/base/error.c src/base/error.h \
	src/base/rng.c src/base/rng.h \
	src/base/type.c src/base/type.h
