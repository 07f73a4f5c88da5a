TRAIN_TESTS = tests/unit/test-metrics tests/unit/test-partition tests/unit/test-train
check_PROGRAMS += $(TRAIN_TESTS)
TESTS += $(TRAIN_TESTS)

tests_unit_test_partition_SOURCES = tests/unit/test-partition.c tests/unit/test.h
tests_unit_test_partition_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_partition_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_partition_LDADD = $(L_PIPE) $(CMOCKA_LIBS)
tests_unit_test_train_SOURCES = tests/unit/test-train.c tests/tiny.c tests/tiny.h tests/unit/test.h tests/unit/tiny-run.h
tests_unit_test_train_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_train_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_train_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)
tests_unit_test_metrics_SOURCES = tests/unit/test-metrics.c tests/tiny.c tests/tiny.h tests/variant.c tests/variant.h tests/unit/test.h tests/unit/tiny-run.h
tests_unit_test_metrics_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_metrics_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_metrics_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)
