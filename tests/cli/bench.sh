#!/usr/bin/env bash
# bench: what it measures comes out whole, as tables and as JSON. How fast anything is, is no matter of a test.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 2 4
one_core
small=(--quick --threads 1 --rows '1,3' --types q8_0 --model model --micro-batch-tokens 20 --max-length 8)

# JSON: one line, all parts, the shares of a step's parts sum up to 1
run 0 bench "${small[@]}" --json --quiet
silent err
[ "$(wc -l <out)" -eq 1 ] || fail '--json is not one line'
for key in zerolock cpu threads isa compute peak gflops all_threads_gflops isa_gflops microkernel microkernel_gflops gemm ops step \
    direction in out rows seconds share tokens_per_second labelled_tokens flops utilisation peak_pss_bytes parts; do
    says out "\"$key\":"
done
says out '"tokens":20,"labelled_tokens":17' # sequences of 8, 8 and 4
says out '"micro_batch_tokens":20,"max_length":8'
for name in norm norm_backward rope gated gated_backward add sum_squares adamw attention attention_backward head head_evaluation; do
    says out "{\"name\":\"$name\",\"tokens\":256,"
done
# four layers of SmolLM2 in two directions with two row counts
[ "$(grep -o '"direction":' out | wc -l)" -eq 16 ] || fail 'not 16 products'
parts='gemm_forward gemm_backward lora attention_forward attention_backward rope norm gated head optimizer rest'
if command -v jq >/dev/null; then
    jq -e --arg parts "$parts" '(.step.parts | keys | sort) == ($parts | split(" ") | sort)
        and ([.step.parts[].share] | add | . > 0.999 and . < 1.001)
        and .step.utilisation > 0 and .peak.gflops > 0
        and all(.gemm[]; .gflops > 0 and .share > 0 and .seconds > 0)
        and all(.ops[]; .seconds > 0 and ((.gflops // .gbytes_per_second) > 0))' out >/dev/null || fail "the JSON lacks something: $(cat out)"
else
    for name in $parts; do
        says out "\"$name\":{"
    done
fi

# tables; only what was asked for
run 0 bench "${small[@]}" --only step
says out 'peak of a core'
says out 'training step, model'
says out 'model-FLOPs utilisation'
for name in $parts; do
    grep -q "^  $name  *[0-9]" out || fail "the table lacks $name"
done
grep -q 'weights: GFLOP/s' out && fail '--only step measures products'
run 0 bench --quick --threads 1 --only gemm --rows 2 --types q4_K,f16
says out 'smollm2, q4_K weights'
grep -q '^   1536 x 576   forward ' out || fail 'no line for 1536 x 576'
says out '576 x 576   cannot be: q4_K has blocks of 256, which do not divide rows of 576'

# a model with random weights leaves no file behind
mkdir tmp
TMPDIR=$PWD/tmp run 0 bench --quick --threads 1 --only step --type q8_0 --micro-batch-tokens 2 --max-length 2
says out 'training step, smollm2 with random q8_0 weights'
[ -z "$(ls tmp)" ] || fail 'the temporary model remains'

# what cannot be meant, and what has no effect
run 2 bench --only speed
one_sentence
says err "'speed' is not one of gemm, ops, step"
run 2 bench --quick --only gemm --types q3
says err "there is no weight type 'q3'"
run 2 bench --quick --only step --type q3
says err "there is no weight type 'q3'"
run 2 bench nonsense
run 1 bench --quick --only step --model nowhere
says err nowhere
run 0 bench "${small[@]}" --only step --type q8_0 --batch-tokens 40
says err '--tinyllama and --type have no effect with --model'
says err '--batch-tokens has no effect with --quick'
says err '--types and --rows have an effect only on matrix products'
finish
