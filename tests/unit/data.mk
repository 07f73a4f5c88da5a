check_PROGRAMS += tests/unit/test-grow
TESTS += tests/unit/test-grow
tests_unit_test_grow_SOURCES = tests/unit/test-grow.c tests/unit/test.h
tests_unit_test_grow_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_grow_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_grow_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-order
TESTS += tests/unit/test-order
tests_unit_test_order_SOURCES = tests/unit/test-order.c tests/unit/test.h
tests_unit_test_order_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_order_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_order_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-dataset
TESTS += tests/unit/test-dataset
tests_unit_test_dataset_SOURCES = tests/unit/test-dataset.c tests/unit/byte-tokenizer.c tests/unit/byte-tokenizer.h tests/unit/test.h
tests_unit_test_dataset_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_dataset_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_dataset_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)

check_PROGRAMS += tests/fuzz/fuzz-jsonl
TESTS += tests/fuzz/fuzz-jsonl
tests_fuzz_fuzz_jsonl_SOURCES = tests/fuzz/fuzz-jsonl.c tests/unit/byte-tokenizer.c tests/unit/byte-tokenizer.h tests/unit/test.h
tests_fuzz_fuzz_jsonl_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_fuzz_fuzz_jsonl_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_jsonl_LDADD = $(L_FORMAT) $(CMOCKA_LIBS)
