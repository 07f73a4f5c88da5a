# The program as a user calls it. The scripts work in a folder of their own and skip (77) what needs more than is here.
CLI_TESTS = tests/cli/bench.sh tests/cli/checkpoint.sh tests/cli/compare.sh tests/cli/completion.sh tests/cli/compute.sh \
	tests/cli/hostile.sh tests/cli/inspect.sh tests/cli/locale.sh tests/cli/machine.sh tests/cli/man-examples.sh tests/cli/man-pages.sh \
	tests/cli/plan.sh tests/cli/resume.sh tests/cli/signals.sh tests/cli/simulate.sh tests/cli/sweep.sh tests/cli/train.sh tests/cli/usage.sh
TESTS += $(CLI_TESTS)
dist_check_SCRIPTS += $(CLI_TESTS)
EXTRA_DIST += tests/cli/lib.sh
if HAVE_CMOCKA
check_PROGRAMS += tests/cli/make-tiny
tests_cli_make_tiny_SOURCES = tests/cli/make-tiny.c tests/tiny.c tests/tiny.h
tests_cli_make_tiny_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_cli_make_tiny_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_cli_make_tiny_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
endif
check_PROGRAMS += tests/cli/without-uring
tests_cli_without_uring_SOURCES = tests/cli/without-uring.c
