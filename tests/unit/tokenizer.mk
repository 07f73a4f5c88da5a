tokenizer_tests = tests/unit/test-tokenizer-golden tests/unit/test-chat
check_PROGRAMS += $(tokenizer_tests)
TESTS += $(tokenizer_tests)
EXTRA_DIST += tests/unit/tiny-tokenizer.h

tests_unit_test_tokenizer_golden_SOURCES = tests/unit/test-tokenizer-golden.c tests/unit/test.h
tests_unit_test_tokenizer_golden_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_tokenizer_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_tokenizer_golden_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_chat_SOURCES = tests/unit/test-chat.c tests/unit/test.h tests/unit/tiny-tokenizer.h
tests_unit_test_chat_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_chat_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_chat_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
