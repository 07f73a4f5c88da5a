# Every test is a program or script of its own; tests/TAP-like output of cmocka goes to the .log files.
# ZL_SHARED names the folder of reference data that may sit beside the project; tests that need it say so and skip without.
AM_TESTS_ENVIRONMENT = ZL_SRCDIR='$(abs_top_srcdir)'; ZL_BUILDDIR='$(abs_top_builddir)'; ZL_SHARED="$${ZL_SHARED:-$(abs_top_srcdir)/../shared}"; \
	export ZL_SRCDIR ZL_BUILDDIR ZL_SHARED;
EXTRA_DIST += tests/unit/test.h tests/tsan-suppressions
if HAVE_CMOCKA
include tests/unit/base.mk
include tests/unit/example.mk
include tests/unit/format.mk
include tests/unit/tokenizer.mk
include tests/unit/data.mk
include tests/unit/gemm.mk
include tests/unit/ops.mk
include tests/unit/pipe.mk
include tests/unit/spill.mk
include tests/unit/sim.mk
include tests/unit/train.mk
include tests/unit/model.mk
include tests/unit/recipe.mk
include tests/unit/bench.mk
include tests/golden/local.mk
include tests/unit/api.mk
include tests/fault/local.mk
endif
include tests/cli/local.mk
include tests/bench/local.mk
