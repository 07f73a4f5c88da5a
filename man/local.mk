dist_man_MANS += \
	man/zerolock.1 \
	man/zerolock.3 \
	man/zerolock.7 \
	man/zerolock-bench.1 \
	man/zerolock-checkpoint.1 \
	man/zerolock-checkpoint.5 \
	man/zerolock-compare.1 \
	man/zerolock-eval.1 \
	man/zerolock-events.5 \
	man/zerolock-generate.1 \
	man/zerolock-inspect.1 \
	man/zerolock-plan.1 \
	man/zerolock-simulate.1 \
	man/zerolock-train.1
