noinst_LTLIBRARIES += libzl_format.la
libzl_format_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
libzl_format_la_SOURCES =
libzl_format_la_SOURCES += \
	src/format/dataset.c src/format/dataset.h src/format/dataset_build.h \
	src/format/dataset_print.c src/format/dataset_report.c src/format/dataset_rows.c src/format/dataset_split.c \
	src/format/jsonl.c src/format/jsonl.h \
	src/format/lines.c src/format/lines.h \
	src/format/order.c
