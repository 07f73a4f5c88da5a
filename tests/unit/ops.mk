check_PROGRAMS += tests/unit/test-ops tests/unit/test-attention tests/unit/test-gradients tests/unit/test-head
TESTS += tests/unit/test-ops tests/unit/test-attention tests/unit/test-gradients tests/unit/test-head

tests_unit_test_ops_SOURCES = tests/unit/test-ops.c tests/unit/near.h tests/unit/test.h
tests_unit_test_ops_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_ops_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_ops_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

tests_unit_test_attention_SOURCES = tests/unit/test-attention.c tests/unit/near.h tests/unit/test.h
tests_unit_test_attention_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_attention_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_attention_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

tests_unit_test_head_SOURCES = tests/unit/test-head.c tests/unit/near.h tests/unit/test.h
tests_unit_test_head_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_head_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_head_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

tests_unit_test_gradients_SOURCES = tests/unit/test-gradients.c tests/unit/near.h tests/unit/test.h
tests_unit_test_gradients_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_gradients_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_gradients_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)
