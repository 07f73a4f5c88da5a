# The public library, as its users see it: only its header, and the installed symbols. The convenience library behind it is tests/tiny.c's.
check_PROGRAMS += tests/unit/test-api tests/unit/api-example
TESTS += tests/unit/test-api tests/unit/api.sh
dist_check_SCRIPTS += tests/unit/api.sh

tests_unit_test_api_SOURCES = tests/unit/test-api.c tests/tiny.c tests/tiny.h tests/unit/test.h
tests_unit_test_api_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS) -Wno-conversion
tests_unit_test_api_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_api_LDADD = libzerolock.la $(L_FORMAT) $(CMOCKA_LIBS)

# The example of zerolock(3), as printed.
nodist_tests_unit_api_example_SOURCES = tests/unit/api-example.c
tests_unit_api_example_CPPFLAGS = -I$(top_srcdir)/include
tests_unit_api_example_LDADD = libzerolock.la
CLEANFILES += tests/unit/api-example.c
tests/unit/api-example.c: man/zerolock.3
	$(AM_V_GEN)$(MKDIR_P) tests/unit && \
	awk '/^\.Sh EXAMPLES/ { in_section = 1 } in_section && /^\.Ed/ { exit } on { gsub(/\\e/, "\\"); print } in_section && /^\.Bd/ { on = 1 }' \
		$(top_srcdir)/man/zerolock.3 >$@.tmp && mv $@.tmp $@
