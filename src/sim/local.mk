# Schedules on paper and their pictures: above the pipe, whose rules and kinds of spans it uses; no threads, no files.
noinst_LTLIBRARIES += libzl_sim.la
libzl_sim_la_SOURCES = \
	src/sim/sim.c src/sim/sim.h
