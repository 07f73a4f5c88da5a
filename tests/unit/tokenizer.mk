tokenizer_tests = tests/unit/test-tokenizer tests/unit/test-tokenizer-golden tests/unit/test-chat \
	tests/unit/test-tokenizer-files tests/fuzz/fuzz-tokenizer
check_PROGRAMS += $(tokenizer_tests)
TESTS += $(tokenizer_tests)
tokenizer_formats = tests/unit/format_files.h tests/unit/gguf_bytes.h

tests_unit_test_tokenizer_golden_SOURCES = tests/unit/test-tokenizer-golden.c tests/unit/test.h
tests_unit_test_tokenizer_golden_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_tokenizer_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_tokenizer_golden_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_chat_SOURCES = tests/unit/test-chat.c tests/unit/test.h tests/unit/tiny-tokenizer.h
tests_unit_test_chat_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_chat_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_chat_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_tokenizer_SOURCES = tests/unit/test-tokenizer.c tests/unit/test.h tests/unit/tiny-tokenizer.h
tests_unit_test_tokenizer_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_tokenizer_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_tokenizer_files_SOURCES = tests/unit/test-tokenizer-files.c $(tokenizer_formats) tests/unit/test.h tests/unit/tiny-tokenizer.h
tests_unit_test_tokenizer_files_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_tokenizer_files_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_tokenizer_files_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_fuzz_fuzz_tokenizer_SOURCES = tests/fuzz/fuzz-tokenizer.c $(tokenizer_formats) tests/fuzz/mutate.h tests/unit/test.h tests/unit/tiny-tokenizer.h
tests_fuzz_fuzz_tokenizer_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_fuzz_fuzz_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_tokenizer_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
