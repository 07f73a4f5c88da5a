noinst_LTLIBRARIES += libzl_train.la
libzl_train_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(HWLOC_CFLAGS)
libzl_train_la_SOURCES =
