noinst_LTLIBRARIES += libzl_kernel.la
libzl_kernel_la_CFLAGS = $(AM_CFLAGS) $(BLIS_CFLAGS)
libzl_kernel_la_SOURCES =
