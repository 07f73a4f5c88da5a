BENCH_TESTS = tests/unit/test-flops tests/unit/test-random-model
check_PROGRAMS += $(BENCH_TESTS)
TESTS += $(BENCH_TESTS)

tests_unit_test_flops_SOURCES = tests/unit/test-flops.c tests/unit/test.h
tests_unit_test_flops_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_flops_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_flops_LDADD = $(L_BENCH) $(CMOCKA_LIBS)

tests_unit_test_random_model_SOURCES = tests/unit/test-random-model.c tests/unit/test.h
tests_unit_test_random_model_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_random_model_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_random_model_LDADD = $(L_BENCH) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-decoder
TESTS += tests/unit/test-decoder
tests_unit_test_decoder_SOURCES = tests/unit/test-decoder.c tests/unit/test.h
tests_unit_test_decoder_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_decoder_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_decoder_LDADD = $(L_BENCH) $(CMOCKA_LIBS)
