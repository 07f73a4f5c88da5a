check_PROGRAMS += tests/unit/test-example-data
TESTS += tests/unit/test-example-data
tests_unit_test_example_data_SOURCES = tests/unit/test-example-data.c tests/unit/test.h
tests_unit_test_example_data_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_example_data_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_example_data_LDADD = $(L_BASE) $(CMOCKA_LIBS)
