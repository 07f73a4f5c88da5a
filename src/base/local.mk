noinst_LTLIBRARIES += libzl_base.la
libzl_base_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libzl_base_la_SOURCES = \
	src/base/arena.c src/base/arena.h \
	src/base/cgroup.c src/base/cgroup.h \
	src/base/clock.h \
	src/base/error.c src/base/error.h \
	src/base/file.c src/base/file.h \
	src/base/json.h \
	src/base/log.c src/base/log.h \
	src/base/memory.c src/base/memory.h \
	src/base/number.c src/base/number.h \
	src/base/progress.c src/base/progress.h \
	src/base/rng.c src/base/rng.h \
	src/base/type.c src/base/type.h \
	src/base/values.h
