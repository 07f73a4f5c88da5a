noinst_LTLIBRARIES += libzl_format.la
libzl_format_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
libzl_format_la_SOURCES =
libzl_format_la_SOURCES += src/format/dataset.h src/format/order.c
