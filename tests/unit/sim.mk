check_PROGRAMS += tests/unit/test-sim
TESTS += tests/unit/test-sim
tests_unit_test_sim_SOURCES = tests/unit/test-sim.c tests/unit/test.h
tests_unit_test_sim_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_sim_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_sim_LDADD = $(L_SIM) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-trace-file
TESTS += tests/unit/test-trace-file
tests_unit_test_trace_file_SOURCES = tests/unit/test-trace-file.c tests/unit/test.h
tests_unit_test_trace_file_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_trace_file_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_trace_file_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-trace-run
TESTS += tests/unit/test-trace-run
tests_unit_test_trace_run_SOURCES = tests/unit/test-trace-run.c tests/tiny.c tests/tiny.h tests/unit/test.h tests/unit/tiny-run.h
tests_unit_test_trace_run_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_trace_run_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_trace_run_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)
