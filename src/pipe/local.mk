noinst_LTLIBRARIES += libzl_pipe.la
libzl_pipe_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libzl_pipe_la_SOURCES =
libzl_pipe_la_SOURCES += \
	src/pipe/futex.c src/pipe/futex.h \
	src/pipe/bell.c src/pipe/bell.h src/pipe/relax.h \
	src/pipe/ring.c src/pipe/ring.h
libzl_pipe_la_SOURCES += \
	src/pipe/packet.h \
	src/pipe/partition.c src/pipe/partition.h \
	src/pipe/pipeline.c src/pipe/pipeline_state.c src/pipe/pipeline.h \
	src/pipe/placement.c src/pipe/placement.h \
	src/pipe/schedule.c src/pipe/schedule.h \
	src/pipe/stage.c src/pipe/stage_pass.c src/pipe/stage_step.c src/pipe/stage_mark.c \
	src/pipe/stage_packet.c src/pipe/stage_state.c src/pipe/stage.h src/pipe/stage_impl.h \
	src/pipe/trace.c src/pipe/trace.h \
	src/pipe/worker.c src/pipe/worker.h
libzl_pipe_la_SOURCES += \
	src/pipe/board.c src/pipe/board.h \
	src/pipe/segment.c src/pipe/segment.h \
	src/pipe/snapshot.h \
	src/pipe/cores.c src/pipe/cores.h src/pipe/choose.h \
	src/pipe/environment.c src/pipe/environment.h \
	src/pipe/team.c src/pipe/crew.c src/pipe/crew.h \
	src/pipe/signal.c src/pipe/signal.h
