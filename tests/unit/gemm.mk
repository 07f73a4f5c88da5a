check_PROGRAMS += tests/unit/test-bf16 tests/unit/test-dequant tests/unit/test-gemm
TESTS += tests/unit/test-bf16 tests/unit/test-dequant tests/unit/test-gemm

tests_unit_test_dequant_SOURCES = tests/unit/test-dequant.c tests/unit/test.h
tests_unit_test_dequant_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_dequant_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_dequant_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

tests_unit_test_gemm_SOURCES = tests/unit/test-gemm.c tests/unit/operands.h tests/unit/test.h
tests_unit_test_gemm_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_gemm_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_gemm_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

tests_unit_test_bf16_SOURCES = tests/unit/test-bf16.c tests/unit/operands.h tests/unit/test.h
tests_unit_test_bf16_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_bf16_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_bf16_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-int8
TESTS += tests/unit/test-int8
tests_unit_test_int8_SOURCES = tests/unit/test-int8.c tests/unit/operands.h tests/unit/test.h
tests_unit_test_int8_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_int8_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_int8_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-amx
TESTS += tests/unit/test-amx
tests_unit_test_amx_SOURCES = tests/unit/test-amx.c tests/unit/operands.h tests/unit/test.h
tests_unit_test_amx_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_amx_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_amx_LDADD = $(L_KERNEL) $(CMOCKA_LIBS)
