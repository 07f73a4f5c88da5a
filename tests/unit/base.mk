check_PROGRAMS += tests/unit/test-base tests/unit/test-number tests/unit/test-options
TESTS += tests/unit/test-base tests/unit/test-number tests/unit/test-options

tests_unit_test_base_SOURCES = tests/unit/test-base.c tests/unit/test.h
tests_unit_test_base_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_base_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_base_LDADD = $(L_BASE) $(CMOCKA_LIBS)

tests_unit_test_number_SOURCES = tests/unit/test-number.c tests/unit/test.h
tests_unit_test_number_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_number_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_number_LDADD = $(L_BASE) $(CMOCKA_LIBS)

tests_unit_test_options_SOURCES = tests/unit/test-options.c tests/unit/test.h
tests_unit_test_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_options_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_options_LDADD = $(L_CMD) $(CMOCKA_LIBS)
