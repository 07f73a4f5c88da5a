# Schedules on paper and their pictures: above the pipe, whose rules and kinds of spans it uses; no threads, no files.
noinst_LTLIBRARIES += libzl_sim.la
libzl_sim_la_SOURCES = \
	src/sim/chart.c src/sim/chart.h \
	src/sim/picture.h src/sim/picture_svg.c src/sim/picture_text.c \
	src/sim/scene.c src/sim/scene.h \
	src/sim/sim.c src/sim/sim.h
