MODEL_TESTS = tests/unit/test-config tests/unit/test-block
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)

MODEL_COMMON = tests/tiny.c tests/tiny.h tests/variant.c tests/variant.h tests/unit/test.h
MODEL_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
MODEL_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
MODEL_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)

tests_unit_test_config_SOURCES = tests/unit/test-config.c tests/unit/format_files.h tests/unit/gguf_bytes.h tests/unit/test.h
tests_unit_test_config_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_config_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_config_LDADD = $(MODEL_LDADD)
tests_unit_test_block_SOURCES = tests/unit/test-block.c $(MODEL_COMMON)
tests_unit_test_block_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_block_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_block_LDADD = $(MODEL_LDADD)
