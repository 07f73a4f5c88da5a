noinst_LTLIBRARIES += libzl_train.la
libzl_train_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(HWLOC_CFLAGS) $(XXHASH_CFLAGS)
libzl_train_la_SOURCES = \
	src/train/adapter.c src/train/adapter.h \
	src/train/checkpointing.c src/train/checkpointing.h \
	src/train/compare.c src/train/compare.h \
	src/train/compare_json.c src/train/compare_page.c src/train/compare_read.c \
	src/train/corpus.c src/train/corpus.h \
	src/train/costs.c src/train/costs.h \
	src/train/course.c src/train/course.h \
	src/train/drive.c src/train/drive.h \
	src/train/evaluate.c src/train/evaluate.h \
	src/train/events.c src/train/events.h \
	src/train/events_check.c src/train/events_check.h \
	src/train/freeze.c src/train/freeze.h \
	src/train/anchor.c src/train/anchor.h \
	src/train/frozen.c src/train/frozen.h src/train/hidden.h \
	src/train/generate.c src/train/generate.h \
	src/train/health.c src/train/health.h \
	src/train/hooks.h \
	src/train/identity.c src/train/identity.h \
	src/train/journal.c src/train/journal.h \
	src/train/ledger.c src/train/ledger.h \
	src/train/loaded.c src/train/loaded.h \
	src/train/maps.c src/train/maps.h \
	src/train/metrics.c src/train/metrics.h \
	src/train/options.c src/train/options.h \
	src/train/plan.c src/train/plan.h \
	src/train/readouts.c src/train/readouts.h \
	src/train/resume.c src/train/resume.h \
	src/train/sample.c src/train/sample.h \
	src/train/setup.c src/train/setup_describe.c src/train/setup.h \
	src/train/standing.c src/train/standing.h \
	src/train/supervise.c src/train/supervise.h \
	src/train/sweep.c src/train/sweep.h src/train/sweep_impl.h \
	src/train/sweep_fit.c src/train/sweep_rows.c \
	src/train/sweep_probe.c \
	src/train/sweep_plan.c src/train/sweep_plan.h \
	src/train/trace.c src/train/trace.h src/train/trace_read.c \
	src/train/trace_costs.c src/train/trace_costs.h \
	src/train/train.c src/train/train.h
