#!/usr/bin/env bash
# The plan before the run, a limit of memory, and computing again: what is promised is what a run does.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
one_core
make_tiny 6 40

# a plan: the cut, memory by part, the work; nothing is written
there() { find . -mindepth 1 -maxdepth 1 ! -name out ! -name err | sort; }
before=$(there)
run 0 plan model train.jsonl --stages 3 --steps 5 -l 256
for part in 'look-ahead' 'weights, mapped from the file' 'adapters and optimizer' 'rings' 'in all, at most' '5 steps' 'tokens/s'; do
    says out "$part"
done
[ "$(grep -c '^ *[0-9][0-9]*  ' out)" -ge 3 ] || fail 'not three stages in the table'
[ "$(there)" = "$before" ] || fail 'plan left something behind'

# all schedules side by side, the chosen one marked once, each with a speed and a memory
for schedule in bp zerolock gpipe 1f1b pipedream async; do
    grep -Eq "^[* ] $schedule +[a-z-]+ +[0-9]+ +[1-9][0-9]* +[0-9.]+ +[0-9.]+$" out || fail "no forecast of $schedule"
done
[ "$(grep -c '^\* zerolock ' out)" = 1 ] || fail 'the chosen schedule is not marked'
run 0 plan model train.jsonl --schedule bp --steps 5 -l 256
[ "$(grep -c '^\* bp ' out)" = 1 ] || fail 'bp is not marked'
run 0 plan model train.jsonl --schedule 1f1b --stages 2 --interleave 3 --steps 5 -l 256

# a sweep's plan: one stage in memory, the rest on the disk
run 0 plan model train.jsonl --schedule sweep --stages 3 --steps 5 -l 256
for part in 'weights of the largest stage with its look-ahead, of' 'buffers of the spill' 'on the disk, MiB' 'hidden states of a window of 5 steps' 'tokens/s'; do
    says out "$part"
done

# the help leaves out what a plan has no use for, and the options are taken all the same
run 0 plan --help
grep -q -- '^ .*--output' out && fail 'plan --help lists --output'
says out 'Taken and of no effect here: --output, --force'
says out '--look-ahead'
run 0 plan model train.jsonl --steps 1 -l 256 -f -o never
[ ! -e never ] || fail 'plan made a folder'

# a limit that nothing fits into is refused before any work, and names what would fit
run 1 train model train.jsonl -o small --steps 2 -l 256 --memory-limit 1M -q
one_sentence
says err '--memory-limit of 1 MiB is too little'
[ ! -e small ] || fail 'a refused run left its folder'
least=$(sed -n 's/.*: \([0-9]*\) MiB is the least.*/\1/p' err)
[ "${least:-0}" -gt 1 ] || fail 'the least is not named'

# one that is large enough runs, and says in run.json what was decided (64 MiB more: the program itself varies from call to call)
run 0 train model train.jsonl -o fits --steps 2 -l 256 --memory-limit $((${least:-0} + 64))M
grep -q '"recompute": "none"' fits/run.json || fail 'run.json does not say what is computed again'
grep -q '"expected_bytes": [1-9]' fits/run.json || fail 'run.json does not say what memory was expected'

# what is computed again has the bits of what was kept
for way in none selective full; do
    run 0 train model train.jsonl -o "$way" --steps 3 --batch-tokens 256 -l 256 --recompute "$way" -q
    cmp -s none/adapter/adapter_model.safetensors "$way/adapter/adapter_model.safetensors" || fail "--recompute $way changed the adapter"
    grep -q "\"recompute\": \"$way\"" "$way/run.json" || fail "run.json does not say $way"
done
finish
