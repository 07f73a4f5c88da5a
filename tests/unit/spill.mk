check_PROGRAMS += tests/unit/test-spill
TESTS += tests/unit/test-spill
tests_unit_test_spill_SOURCES = tests/unit/test-spill.c tests/unit/test.h
tests_unit_test_spill_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_spill_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_spill_LDADD = $(L_STORE) $(CMOCKA_LIBS)
