noinst_LTLIBRARIES += libzl_model.la
libzl_model_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libzl_model_la_SOURCES =
