#!/usr/bin/env bash
# --compute: refused in one sentence where the CPU lacks it, before any work; where it has it, the same bytes for any number of threads.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 40

run 2 train model train.jsonl -o run --compute f16
says err 'f32 or bf16'
for command in 'train model train.jsonl -o run' 'eval model held-out.jsonl' 'plan model train.jsonl'; do
    # shellcheck disable=SC2086
    ZEROLOCK_ISA=baseline run 1 $command --compute bf16 -l 256 -q
    silent out
    one_sentence
    says err '--compute bf16: '
done
# 8-bit integers: for eval and generate, not for train; for weights that are stored as integers only, which the tiny model's are not.
run 2 train model train.jsonl -o run --compute int8
says err 'f32 or bf16'
for command in 'eval model held-out.jsonl' 'generate model Hello'; do
    # shellcheck disable=SC2086
    run 2 $command --compute f16
    says err 'f32, bf16 or int8'
    # shellcheck disable=SC2086
    ZEROLOCK_ISA=baseline run 1 $command --compute int8 -q
    silent out
    one_sentence
    says err '--compute int8: '
    grep -qw avx2 /proc/cpuinfo || continue
    # shellcheck disable=SC2086
    run 2 $command --compute int8 -q
    silent out
    says err 'not as integers'
done
[ ! -e run ] || fail 'a refused run has left its folder'

short=(train model train.jsonl --steps 2 --batch-tokens 256 -l 256 -q)
run 0 "${short[@]}" -o single --schedule bp
run 0 "${short[@]}" -o default --schedule bp --compute f32
cmp -s single/adapter/adapter_model.safetensors default/adapter/adapter_model.safetensors || fail 'f32 is not the default'

cp single/metrics.jsonl before
ZEROLOCK_ISA=baseline run 1 "${short[@]}" -o single --schedule bp --compute bf16 --force
cmp -s before single/metrics.jsonl || fail 'a refused run has touched the one it was to overwrite'

"$zerolock" eval model held-out.jsonl -l 256 -q --compute bf16 >out 2>err || {
    says err '--compute bf16: '
    [ "$failures" -eq 0 ] || exit 1
    skip "$(cat err)"
}
for threads in $(seq "$(nproc)" | head -n 3); do
    run 0 "${short[@]}" -o "bf16-$threads" --schedule bp --compute bf16 --threads $threads
    cmp -s bf16-1/adapter/adapter_model.safetensors "bf16-$threads/adapter/adapter_model.safetensors" ||
        fail "$threads threads give another adapter"
done
grep -q '"compute": *"bf16"' bf16-1/run.json || fail 'run.json does not say bf16'
cmp -s single/adapter/adapter_model.safetensors bf16-1/adapter/adapter_model.safetensors && fail 'bf16 changes nothing'
run 0 "${short[@]}" -o stages --compute bf16
finish
