check_PROGRAMS += tests/unit/test-random-model
TESTS += tests/unit/test-random-model
tests_unit_test_random_model_SOURCES = tests/unit/test-random-model.c tests/unit/test.h
tests_unit_test_random_model_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_random_model_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_random_model_LDADD = $(L_BENCH) $(CMOCKA_LIBS)
