MODEL_TESTS = tests/unit/test-config tests/unit/test-model tests/unit/test-lora tests/unit/test-block tests/unit/test-pipeline tests/unit/test-readout
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
tests_unit_test_model_SOURCES = tests/unit/test-model.c tests/unit/format_files.h tests/unit/gguf_bytes.h $(MODEL_COMMON)
tests_unit_test_model_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_model_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_model_LDADD = $(MODEL_LDADD)
tests_unit_test_lora_SOURCES = tests/unit/test-lora.c tests/unit/test.h
tests_unit_test_lora_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_lora_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_lora_LDADD = $(MODEL_LDADD)
tests_unit_test_block_SOURCES = tests/unit/test-block.c $(MODEL_COMMON)
tests_unit_test_block_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_block_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_block_LDADD = $(MODEL_LDADD)
tests_unit_test_readout_SOURCES = tests/unit/test-readout.c $(MODEL_COMMON)
tests_unit_test_readout_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_readout_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_readout_LDADD = $(MODEL_LDADD)

tests_unit_test_pipeline_SOURCES = tests/unit/test-pipeline.c $(MODEL_COMMON)
tests_unit_test_pipeline_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_pipeline_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_pipeline_LDADD = $(MODEL_LDADD)
