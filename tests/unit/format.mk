# Files of tensors: safetensors, GGUF, adapters; and their fuzzers, which are plain programs with a fixed number of mutations.
FORMAT_TESTS = tests/unit/test-safetensors tests/unit/test-gguf tests/unit/test-adapter \
	tests/fuzz/fuzz-safetensors tests/fuzz/fuzz-gguf
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)
format_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
format_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)
format_headers = tests/unit/test.h tests/unit/format_files.h tests/unit/gguf_bytes.h

tests_unit_test_safetensors_SOURCES = tests/unit/test-safetensors.c $(format_headers)
tests_unit_test_safetensors_CFLAGS = $(format_cflags)
tests_unit_test_safetensors_CPPFLAGS = $(format_cppflags)
tests_unit_test_safetensors_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_gguf_SOURCES = tests/unit/test-gguf.c $(format_headers)
tests_unit_test_gguf_CFLAGS = $(format_cflags)
tests_unit_test_gguf_CPPFLAGS = $(format_cppflags)
tests_unit_test_gguf_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
# counts what hostile headers make us allocate
tests_unit_test_gguf_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray

tests_unit_test_adapter_SOURCES = tests/unit/test-adapter.c $(format_headers)
tests_unit_test_adapter_CFLAGS = $(format_cflags)
tests_unit_test_adapter_CPPFLAGS = $(format_cppflags)
tests_unit_test_adapter_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz-safetensors.c tests/fuzz/mutate.h $(format_headers)
tests_fuzz_fuzz_safetensors_CFLAGS = $(format_cflags)
tests_fuzz_fuzz_safetensors_CPPFLAGS = $(format_cppflags)
tests_fuzz_fuzz_safetensors_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_fuzz_fuzz_gguf_SOURCES = tests/fuzz/fuzz-gguf.c tests/fuzz/mutate.h $(format_headers)
tests_fuzz_fuzz_gguf_CFLAGS = $(format_cflags)
tests_fuzz_fuzz_gguf_CPPFLAGS = $(format_cppflags)
tests_fuzz_fuzz_gguf_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
