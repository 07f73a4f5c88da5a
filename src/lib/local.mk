# The public library: shells around the layers in src/lib, and the layers' convenience libraries. Only what include/zerolock.h marks is
# exported: all else is hidden by -fvisibility=hidden, and by the pattern, because clang's OpenMP locks are visible nevertheless.
include_HEADERS = include/zerolock.h
lib_LTLIBRARIES += libzerolock.la
libzerolock_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(HWLOC_CFLAGS)
libzerolock_la_SOURCES = \
	src/lib/error.c \
	src/lib/eval.c \
	src/lib/generate.c \
	src/lib/lib.h \
	src/lib/messages.c \
	src/lib/model.c \
	src/lib/options.c \
	src/lib/tokens.c \
	src/lib/train.c \
	src/lib/version.c
libzerolock_la_LIBADD = \
	libzl_cmd.la libzl_train.la libzl_sim.la libzl_store.la libzl_pipe.la libzl_model.la libzl_kernel.la libzl_format.la libzl_base.la \
	$(YAML_LIBS) $(HWLOC_LIBS) $(XXHASH_LIBS) $(LIBURING_LIBS) $(BLIS_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(JANSSON_LIBS)
# current:revision:age of the binary interface, by libtool's rules; not the package's version
libzerolock_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -export-symbols-regex '^zerolock_'
pkgconfig_DATA = etc/zerolock.pc
