check_PROGRAMS += tests/unit/test-tokenizer-golden
TESTS += tests/unit/test-tokenizer-golden

tests_unit_test_tokenizer_golden_SOURCES = tests/unit/test-tokenizer-golden.c tests/unit/test.h
tests_unit_test_tokenizer_golden_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_tokenizer_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_tokenizer_golden_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
