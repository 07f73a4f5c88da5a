# Measuring: above everything that trains, below the command line.
noinst_LTLIBRARIES += libzl_bench.la
libzl_bench_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS) $(JANSSON_CFLAGS)
libzl_bench_la_SOURCES = \
	src/bench/bench.c src/bench/bench.h \
	src/bench/blocks.c src/bench/blocks.h \
	src/bench/flops.c src/bench/flops.h \
	src/bench/kernels.c \
	src/bench/measure.h \
	src/bench/peak.c \
	src/bench/products.c \
	src/bench/random_model.c src/bench/random_model.h \
	src/bench/shapes.c src/bench/shapes.h \
	src/bench/training.c
