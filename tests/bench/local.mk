# Measurements and comparisons that `make check` does not run: built by `make bench-programs`, described in their own heads.
BENCH_TOOLS = tests/bench/dump-logits tests/bench/make-gguf
EXTRA_PROGRAMS = $(BENCH_TOOLS)
bench-programs: $(BENCH_TOOLS)
.PHONY: bench-programs

# The speed track: what a commit that claims speed quotes. Options in BENCH_FLAGS.
bench: zerolock
	./zerolock bench $(BENCH_FLAGS)
.PHONY: bench

EXTRA_DIST += tests/bench/peft-logits.py tests/bench/quality.sh
tests_bench_dump_logits_SOURCES = tests/bench/dump-logits.c
tests_bench_dump_logits_LDADD = $(L_TRAIN)
tests_bench_make_gguf_SOURCES = tests/bench/make-gguf.c
tests_bench_make_gguf_LDADD = $(L_BENCH)
