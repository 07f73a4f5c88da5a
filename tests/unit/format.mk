# Files of tensors: safetensors, GGUF, adapters; and their fuzzers, which are plain programs with a fixed number of mutations.
FORMAT_TESTS = tests/unit/test-safetensors tests/unit/test-gguf
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)
format_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
format_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)
format_sources = tests/unit/test.h tests/unit/format_files.h tests/unit/gguf_bytes.h

tests_unit_test_safetensors_SOURCES = tests/unit/test-safetensors.c $(format_sources)
tests_unit_test_safetensors_CFLAGS = $(format_cflags)
tests_unit_test_safetensors_CPPFLAGS = $(format_cppflags)
tests_unit_test_safetensors_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

tests_unit_test_gguf_SOURCES = tests/unit/test-gguf.c $(format_sources)
tests_unit_test_gguf_CFLAGS = $(format_cflags)
tests_unit_test_gguf_CPPFLAGS = $(format_cppflags)
tests_unit_test_gguf_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
# counts what hostile headers make us allocate
tests_unit_test_gguf_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray
