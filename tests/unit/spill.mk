check_PROGRAMS += tests/unit/test-spill
TESTS += tests/unit/test-spill
tests_unit_test_spill_SOURCES = tests/unit/test-spill.c tests/unit/test.h
tests_unit_test_spill_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_spill_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_spill_LDADD = $(L_STORE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-sweep
TESTS += tests/unit/test-sweep
tests_unit_test_sweep_SOURCES = tests/unit/test-sweep.c tests/tiny.c tests/tiny.h tests/unit/test.h tests/unit/tiny-run.h
tests_unit_test_sweep_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_sweep_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_sweep_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)
