# What must survive: the store of checkpoints under its own campaigns. The scene is shared with the unit tests of the store.
STORE_TESTS = tests/unit/test-checkpoint tests/unit/test-generations tests/fault/test-crash-cut tests/fault/test-bit-flips
check_PROGRAMS += $(STORE_TESTS)
TESTS += $(STORE_TESTS)
store_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -Wno-conversion
store_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)
store_headers = tests/fault/scene.h tests/unit/test.h

tests_unit_test_checkpoint_SOURCES = tests/unit/test-checkpoint.c $(store_headers)
tests_unit_test_checkpoint_CFLAGS = $(store_cflags)
tests_unit_test_checkpoint_CPPFLAGS = $(store_cppflags)
tests_unit_test_checkpoint_LDADD = $(L_STORE) $(CMOCKA_LIBS)
tests_unit_test_generations_SOURCES = tests/unit/test-generations.c $(store_headers)
tests_unit_test_generations_CFLAGS = $(store_cflags) $(XXHASH_CFLAGS)
tests_unit_test_generations_CPPFLAGS = $(store_cppflags)
tests_unit_test_generations_LDADD = $(L_STORE) $(CMOCKA_LIBS)
tests_fault_test_crash_cut_SOURCES = tests/fault/test-crash-cut.c tests/fault/recorder.h $(store_headers)
tests_fault_test_crash_cut_CFLAGS = $(store_cflags)
tests_fault_test_crash_cut_CPPFLAGS = $(store_cppflags)
tests_fault_test_crash_cut_LDADD = $(L_STORE) $(CMOCKA_LIBS)
tests_fault_test_bit_flips_SOURCES = tests/fault/test-bit-flips.c $(store_headers)
tests_fault_test_bit_flips_CFLAGS = $(store_cflags)
tests_fault_test_bit_flips_CPPFLAGS = $(store_cppflags)
tests_fault_test_bit_flips_LDADD = $(L_STORE) $(CMOCKA_LIBS)

# The rest of what is written under a run's folder, recorded at the calls of the system.
check_PROGRAMS += tests/fault/test-power-loss
TESTS += tests/fault/test-power-loss
tests_fault_test_power_loss_SOURCES = tests/fault/test-power-loss.c tests/fault/power.h $(store_headers)
tests_fault_test_power_loss_CFLAGS = $(store_cflags) $(JANSSON_CFLAGS) -fno-builtin -U_FORTIFY_SOURCE
tests_fault_test_power_loss_CPPFLAGS = $(store_cppflags)
tests_fault_test_power_loss_LDADD = $(L_TRAIN) $(CMOCKA_LIBS)
tests_fault_test_power_loss_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open,--wrap=openat,--wrap=write,--wrap=ftruncate,--wrap=fsync \
	-Wl,--wrap=fdatasync,--wrap=mkdir,--wrap=rmdir,--wrap=unlink,--wrap=unlinkat \
	-Wl,--wrap=rename,--wrap=renameat,--wrap=renameat2

# For the script: a writer to be hindered, and what hinders it.
check_PROGRAMS += tests/fault/write-checkpoints
tests_fault_write_checkpoints_SOURCES = tests/fault/write-checkpoints.c $(store_headers)
tests_fault_write_checkpoints_CFLAGS = $(store_cflags)
tests_fault_write_checkpoints_CPPFLAGS = $(store_cppflags)
tests_fault_write_checkpoints_LDADD = $(L_STORE) $(CMOCKA_LIBS)
check_LTLIBRARIES += tests/fault/libinject.la
tests_fault_libinject_la_SOURCES = tests/fault/inject.c
tests_fault_libinject_la_CFLAGS = $(ZL_CFLAGS) $(LIBURING_CFLAGS) -fvisibility=default -Wno-missing-prototypes
tests_fault_libinject_la_LDFLAGS = -module -avoid-version -shared -rpath $(abs_builddir)/tests/fault
TESTS += tests/fault/faults.sh tests/fault/kill.sh tests/fault/supervise.sh tests/fault/bad-numbers.sh tests/fault/no-room.sh tests/fault/stop.sh
dist_check_SCRIPTS += tests/fault/faults.sh tests/fault/kill.sh tests/fault/supervise.sh tests/fault/bad-numbers.sh tests/fault/no-room.sh tests/fault/stop.sh
check_PROGRAMS += tests/fault/other-format
tests_fault_other_format_SOURCES = tests/fault/other-format.c
tests_fault_other_format_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
tests_fault_other_format_LDADD = $(XXHASH_LIBS)

check_PROGRAMS += tests/fuzz/fuzz-checkpoint
TESTS += tests/fuzz/fuzz-checkpoint
tests_fuzz_fuzz_checkpoint_SOURCES = tests/fuzz/fuzz-checkpoint.c tests/fuzz/mutate.h tests/unit/format_files.h tests/unit/test.h
tests_fuzz_fuzz_checkpoint_CFLAGS = $(store_cflags) $(XXHASH_CFLAGS)
tests_fuzz_fuzz_checkpoint_CPPFLAGS = $(store_cppflags)
tests_fuzz_fuzz_checkpoint_LDADD = $(L_STORE) $(CMOCKA_LIBS)
