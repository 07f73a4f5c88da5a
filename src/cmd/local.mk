# The command line: tables and parsing as a library of its own, so that tests link it; one file a subcommand.
noinst_LTLIBRARIES += libzl_cmd.la
libzl_cmd_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
libzl_cmd_la_SOURCES = \
	src/cmd/bench_options.c \
	src/cmd/checkpoint_options.c \
	src/cmd/commands.h \
	src/cmd/compare_options.c \
	src/cmd/config.c \
	src/cmd/entry.c src/cmd/entry.h \
	src/cmd/eval_options.c \
	src/cmd/generate_options.c \
	src/cmd/help.c \
	src/cmd/inspect_options.c \
	src/cmd/option_value.c \
	src/cmd/options.c src/cmd/options.h \
	src/cmd/simulate.h src/cmd/simulate_costs.c src/cmd/simulate_options.c \
	src/cmd/suggest.c \
	src/cmd/train_options.c \
	src/cmd/train_settle.c
L_CMD = libzl_cmd.la $(YAML_LIBS) $(L_BENCH)

bin_PROGRAMS += zerolock
zerolock_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(HWLOC_CFLAGS)
zerolock_SOURCES = \
	src/cmd/bench.c \
	src/cmd/checkpoint.c \
	src/cmd/compare.c \
	src/cmd/eval.c \
	src/cmd/generate.c \
	src/cmd/inspect.c src/cmd/inspect.h \
	src/cmd/inspect_adapter.c \
	src/cmd/inspect_data.c \
	src/cmd/inspect_model.c \
	src/cmd/main.c \
	src/cmd/plan.c \
	src/cmd/process.c \
	src/cmd/simulate.c \
	src/cmd/train.c
zerolock_LDADD = $(L_CMD)
