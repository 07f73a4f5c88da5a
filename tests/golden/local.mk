GOLDEN_COMMON = tests/golden/golden.c tests/golden/golden.h tests/unit/test.h
GOLDEN_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
GOLDEN_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
GOLDEN_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)

GOLDEN_TESTS = tests/golden/test-model tests/golden/test-gguf-models tests/golden/test-smollm2
check_PROGRAMS += $(GOLDEN_TESTS)
TESTS += $(GOLDEN_TESTS)

tests_golden_test_model_SOURCES = tests/golden/test-model.c $(GOLDEN_COMMON)
tests_golden_test_model_CFLAGS = $(GOLDEN_CFLAGS)
tests_golden_test_model_CPPFLAGS = $(GOLDEN_CPPFLAGS)
tests_golden_test_model_LDADD = $(GOLDEN_LDADD)
tests_golden_test_gguf_models_SOURCES = tests/golden/test-gguf-models.c $(GOLDEN_COMMON)
tests_golden_test_gguf_models_CFLAGS = $(GOLDEN_CFLAGS)
tests_golden_test_gguf_models_CPPFLAGS = $(GOLDEN_CPPFLAGS)
tests_golden_test_gguf_models_LDADD = $(GOLDEN_LDADD)
tests_golden_test_smollm2_SOURCES = tests/golden/test-smollm2.c $(GOLDEN_COMMON)
tests_golden_test_smollm2_CFLAGS = $(GOLDEN_CFLAGS)
tests_golden_test_smollm2_CPPFLAGS = $(GOLDEN_CPPFLAGS)
tests_golden_test_smollm2_LDADD = $(GOLDEN_LDADD)
