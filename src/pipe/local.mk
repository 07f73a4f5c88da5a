noinst_LTLIBRARIES += libzl_pipe.la
libzl_pipe_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libzl_pipe_la_SOURCES =
