#!/usr/bin/env bash
# simulate: known schedules have their known bubbles, as text, JSON and SVG; what cannot be meant is refused.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"

# equal stages, 4 micro-batches, 4 stages: GPipe and 1F1B are idle for 3/7 of the time, as the papers say
even=(--layers 4 --readout-cost 0 --stages 4 --micro-batches 4 --steps 1)
run 0 simulate --schedules gpipe,1f1b "${even[@]}" --json
silent err
[ "$(grep -o '"idle":0.428571429' out | wc -l)" -ge 2 ] || fail "the bubble is not 3/7: $(cat out)"
run 0 simulate --schedules 1f1b "${even[@]}" --columns 80
expected='stage 0   aaaaabbbbbcccccddddd...............AAAAA.....BBBBB.....CCCCC.....DDDDD
stage 1   .....aaaaabbbbbccccc..........AAAAAdddddBBBBB.....CCCCC.....DDDDD.....
stage 2   ..........aaaaabbbbb.....AAAAAcccccBBBBBdddddCCCCC.....DDDDD..........
stage 3   ...............aaaaaAAAAAbbbbbBBBBBcccccCCCCCdddddDDDDD...............'
[ "$(grep '^stage [0-9]  ' out | grep -v layers)" = "$expected" ] || fail "the picture of 1f1b is another: $(cat out)"
says out 'live activations'

# all schedules, with pictures; and each as an entry with options of its own
run 0 simulate --columns 60
for schedule in bp gpipe 1f1b pipedream async zerolock sweep; do
    grep -q "^$schedule$" out || fail "no picture of $schedule"
done
run 0 simulate --schedules 'zerolock:readout=ridge:stages=2,zerolock:bounds=0+4+8:freeze=0:stages=3,1f1b:interleave=2' --layers 12 --json
[ "$(grep -o '"entry"' out | wc -l)" -eq 3 ] || fail 'not three entries'
says out '"frozen":true'
run 0 simulate --schedules 1f1b --core-groups 4,2:0.5 --stages 2
says out '2 of 0.5'
run 0 simulate --schedules 1f1b,zerolock --svg all.svg
[ "$(grep -c '<svg class="zl"' all.svg)" -eq 3 ] || fail 'not two pictures and a legend'
if command -v xmllint >/dev/null; then xmllint --noout all.svg || fail 'the SVG is not well-formed'; fi

# what cannot be meant
run 2 simulate --schedules mystery
one_sentence
says err "there is no schedule 'mystery'; there are"
run 2 simulate --schedules 'bp:stage=2'
says err "did you mean 'stages'"
run 2 simulate --schedules 'bp:json'
says err 'concerns the whole call'
run 2 simulate --schedules ':stages=2'
run 2 simulate --schedules 'bp:'
run 2 simulate --schedules 'bp:stages=0'
run 2 simulate --stages 40 --layers 32 --schedules 1f1b
run 2 simulate --core-groups 4:0 --schedules 1f1b
run 2 simulate --core-groups 1,1,1 --stages 2 --schedules 1f1b
says err 'a group without a stage would do nothing'
run 2 simulate --cores 4 --core-groups 4
run 2 simulate --forward 1,2 --stages 3 --schedules 1f1b
run 2 simulate --forward 1,-2 --stages 2 --schedules 1f1b
run 2 simulate --steps 100000 --micro-batches 100000
run 1 simulate --costs-from nowhere.json
says err 'nowhere.json'
echo '{}' >not-a-trace.json
run 1 simulate --costs-from not-a-trace.json
one_sentence

# a trace of a run gives the costs; train says where the trace went, and refuses a place that cannot be written before any work
make_tiny 6 40
one_core
run 0 train model train.jsonl -o run --steps 2 -l 256 --trace trace.json
says err 'written to trace.json'
for part in '"traceEvents":[' '"name":"forward"' '"name":"backward"' '"name":"update"' '"name":"local loss"' 'ring fill' \
    'live activation bytes'; do
    grep -qF -- "$part" trace.json || fail "the trace lacks $part"
done
run 0 simulate --costs-from trace.json --schedules bp,zerolock --json
says out '"layers":6'
run 1 train model train.jsonl -o other --steps 1 -l 256 --trace no/such/folder/t.json
one_sentence
[ ! -e other ] || fail 'a run whose trace cannot be written left its folder'
finish
