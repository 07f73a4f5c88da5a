check_PROGRAMS += tests/unit/test-order
TESTS += tests/unit/test-order
tests_unit_test_order_SOURCES = tests/unit/test-order.c tests/unit/test.h
tests_unit_test_order_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_order_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_order_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
