check_PROGRAMS += tests/unit/test-ring
TESTS += tests/unit/test-ring
tests_unit_test_ring_SOURCES = tests/unit/test-ring.c tests/unit/test.h
tests_unit_test_ring_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_ring_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_ring_LDADD = libzl_pipe.la $(L_BASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-segment
TESTS += tests/unit/test-segment
tests_unit_test_segment_SOURCES = tests/unit/test-segment.c tests/unit/test.h
tests_unit_test_segment_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_segment_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_segment_LDADD = libzl_pipe.la $(L_BASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-cores
TESTS += tests/unit/test-cores
tests_unit_test_cores_SOURCES = tests/unit/test-cores.c tests/unit/test.h
tests_unit_test_cores_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(HWLOC_CFLAGS) -Wno-conversion
tests_unit_test_cores_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_cores_LDADD = libzl_pipe.la $(L_BASE) $(HWLOC_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-team
TESTS += tests/unit/test-team
tests_unit_test_team_SOURCES = tests/unit/test-team.c tests/unit/test.h
tests_unit_test_team_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_team_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_team_LDADD = libzl_pipe.la $(L_BASE) $(HWLOC_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-trace
TESTS += tests/unit/test-trace
tests_unit_test_trace_SOURCES = tests/unit/test-trace.c tests/unit/test.h
tests_unit_test_trace_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_trace_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_trace_LDADD = libzl_pipe.la $(L_BASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test-crew
TESTS += tests/unit/test-crew
tests_unit_test_crew_SOURCES = tests/unit/test-crew.c tests/unit/test.h
tests_unit_test_crew_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
tests_unit_test_crew_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_crew_LDADD = libzl_pipe.la $(L_BASE) $(CMOCKA_LIBS)
