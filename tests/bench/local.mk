# Measurements and comparisons that `make check` does not run: built by `make bench-programs`, described in their own heads.
BENCH_PROGRAMS = tests/bench/dump-logits
EXTRA_PROGRAMS = $(BENCH_PROGRAMS)
bench-programs: $(BENCH_PROGRAMS)
.PHONY: bench-programs
EXTRA_DIST += tests/bench/peft-logits.py
tests_bench_dump_logits_SOURCES = tests/bench/dump-logits.c
tests_bench_dump_logits_LDADD = $(L_TRAIN)
