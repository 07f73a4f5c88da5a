#!/usr/bin/env bash
# Train, measure and generate with the program: what lands in the run's folder, and that what is printed is what happened.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 40

run 0 train model train.jsonl -o run --steps 3 --batch-tokens 256 --eval-data held-out.jsonl --eval-every 2 --max-length 256
silent out
[ "$(grep -c '"loss"' run/metrics.jsonl)" -eq 3 ] || fail 'not 3 steps in metrics.jsonl'
[ "$(grep -o '"step":[0-9]*' run/metrics.jsonl | tr '\n' ' ')" = '"step":0 "step":1 "step":2 "step":2 "step":3 "step":3 ' ] ||
    fail "steps in metrics.jsonl: $(grep -o '"step":[0-9]*' run/metrics.jsonl | tr '\n' ' ')"
says err '3 steps'
says err 'held-out loss'
grep -q '^steps: 3$' run/config.yaml || fail 'config.yaml does not say what was given'
grep -q '^# lr: 0.003$' run/config.yaml || fail 'config.yaml does not say what was the default'
for file in adapter/adapter_config.json adapter/adapter_model.safetensors metrics.jsonl config.yaml run.json; do
    [ -s "run/$file" ] || fail "run/$file is missing"
done

# the results of a run are not overwritten by accident
cp run/adapter/adapter_model.safetensors first
run 2 train model train.jsonl -o run --steps 1 -l 256
one_sentence
says err '--force'
cmp -s first run/adapter/adapter_model.safetensors || fail 'the adapter of a refused run was touched'

# another seed, and the configuration that was written trains the same adapter again
run 0 train model train.jsonl -o again --steps 3 --batch-tokens 256 --max-length 256 --quiet --seed 1
silent err
cmp -s first again/adapter/adapter_model.safetensors && fail 'another seed gives the same adapter'
if has_config; then
    run 0 train --config run/config.yaml -o again --force --quiet
    silent err
    cmp -s first again/adapter/adapter_model.safetensors || fail 'config.yaml gives another adapter'
fi

# known only when the data has been read: an interval longer than the run
run 0 train model train.jsonl -o short --steps 2 -l 256 --eval-data held-out.jsonl --eval-every 2
says err '--eval-every 2 has no effect in a run of 2 steps'
[ "$(grep -c '"eval_loss"' short/metrics.jsonl)" -eq 2 ] || fail 'not two evaluations'

# a run that is over before it has learnt anything is remarked upon, unless it was asked for
run 0 train model train.jsonl -o short --force -l 256 --batch-tokens 1M
says err 'only 1 step;'
says err '1 step, '
run 0 train model train.jsonl -o short --force -l 256 --steps 1
grep -q 'little data' err && fail 'a run of --steps 1 is told that it is short'

# little data is taken in small steps, much in large ones, and what was given is not touched
says_batch() {
    run 0 train model "$1" -o short --force -l 256 --steps 1 "${@:3}"
    grep -q "\"batch_tokens\": $2," short/run.json || fail "not $2 tokens a step: $(grep batch_tokens short/run.json)"
}
says_batch train.jsonl 256
says err 'steps of at most 256 tokens'
for _ in $(seq 40); do cat train.jsonl; done >much.jsonl
says_batch much.jsonl 2048
grep -q 'steps of at most' err && fail 'much data is called little'
says_batch much.jsonl 512 --batch-tokens 512
says_batch train.jsonl 320 --micro-batch-tokens 320

# a look-ahead beyond the model is cut short, and said to be
run 0 train model train.jsonl -o short --force -l 256 --steps 1 --look-ahead 40 --stages 3
says err '--look-ahead 40 ends with the model'

# nothing to train on is an error that counts, and leaves nothing
printf '{"prompt": "a", "completion": ""}\n{"prompt": "b", "completion": ""}\n' >hollow.jsonl
run 1 train model hollow.jsonl -o hollow -l 256
one_sentence
says err '2 rows'
says err '2 dropped'
[ ! -e hollow ] || fail 'a run without data has left its folder'

run 0 eval model held-out.jsonl -l 256
says out 'loss'
says out 'perplexity'
run 0 eval model held-out.jsonl -l 256 --adapter again --json --quiet
silent err
grep -q '^{"loss":[0-9.]*,"perplexity":[0-9.]*,.*"examples":12,.*}$' out || fail "not the JSON expected: $(cat out)"
cp out by-run
run 0 eval model held-out.jsonl -l 256 --adapter again/adapter --json --quiet
[ "$(cut -d, -f1-3 out)" = "$(cut -d, -f1-3 by-run)" ] || fail "a run's folder and its adapter folder differ"
run 0 eval model held-out.jsonl -l 256 --limit 4 --exact-match --max-new-tokens 8 --json
says out '"compared":4'
says out '"examples":4'
run 1 eval model held-out.jsonl -l 256 -q --adapter model
# a wrong adapter is named before any data is waited for
mkfifo endless
exec 8<>endless # somebody who never writes
for command in 'eval model endless --adapter nowhere' 'train model endless -o early --init-adapter nowhere' 'generate model --adapter nowhere'; do
    # shellcheck disable=SC2086
    timeout 20 "$zerolock" $command -q <endless >out 2>err
    [ $? -eq 1 ] || fail "$command does not end at once with 1"
    one_sentence
    says err 'nowhere/adapter_config.json'
done
exec 8<&-
one_sentence

run 0 generate model 'Count 2 from 3:' --max-new-tokens 8
[ -s out ] || fail 'nothing was generated'
[ "$(tail -c 1 out | od -An -c | tr -d ' ')" = '\n' ] || fail 'the text does not end with a line end'
says err 'wrote'
cp out by-argument
"$zerolock" generate model --max-new-tokens 8 --quiet >out 2>err < <(echo 'Count 2 from 3:') || fail 'generate from standard input'
silent err
cmp -s out by-argument || fail 'a prompt from standard input gives another text'
run 0 generate model 'Count' -t 1 --seed 5 -n 8 -q
cp out by-seed
run 0 generate model 'Count' -t 1 --seed 5 -n 8 -q
cmp -s out by-seed || fail 'the same seed gives another text'
run 0 generate model 'Count 2 from 3:' --adapter again -n 4
run 2 generate model 'hello' --chat
one_sentence

# gradients are late by half a step at most, unless it is asked for
late() {
    run 0 train model train.jsonl -s async -k 2 --steps 3 -l 256 -o late --force -q "${@:2}"
    grep -q "\"lag\": *$1\b" late/run.json || fail "${*:2}: not a lag of $1: $(grep -o '"lag": *[0-9]*' late/run.json)"
}
late 2 -b 800 -m 64
late 1 -b 64 -m 64
late 3 -b 64 -m 64 --lag 3
finish
