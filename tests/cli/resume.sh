#!/usr/bin/env bash
# train --resume: what goes on and to which bits, what is refused and by which words, and what a damaged checkpoint costs.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 120
one_core
run=(train model train.jsonl --steps 14 -b 250 -m 64 -l 256 --eval-data held-out.jsonl --eval-every 4)
run 0 "${run[@]}" -q -o straight
same() { cmp -s straight/adapter/adapter_model.safetensors "$1/adapter/adapter_model.safetensors" || fail "$2: another adapter"; }

# a run that was over goes on to nothing and writes its adapter again
cp -r straight over
rm -r over/adapter
run 0 "${run[@]}" -q --resume -o over
same over 'a run that was over'
cmp -s straight/metrics.jsonl over/metrics.jsonl || fail 'the metrics of a run that was over have changed'

# four micro-batches a step, back to step 7 in the middle of an epoch; from another folder, by the run's name alone, with other threads
run 0 "${run[@]}" -q -o made --checkpoint-every 7 --keep 5
run 0 checkpoint restore made -g 1
for file in checkpoints config.yaml metrics.jsonl; do [ -e "made/$file" ] || fail "no made/$file"; done
cp -r made kept
if has_config; then
    mkdir elsewhere
    (cd elsewhere && "$zerolock" train --resume ../made --ring-depth 1 --placement stacked -q >"$work/out" 2>"$work/err") || fail 'from another folder'
    same made 'behind step 7'
    [ "$(sed 's/,"seconds".*//' made/metrics.jsonl | sort)" = "$(sed 's/,"seconds".*//' straight/metrics.jsonl | sort)" ] || {
        grep -o '"step":[0-9]*' made/metrics.jsonl | sort | uniq -c >counts
        [ "$(grep -o '"step":[0-9]*,"epoch"' made/metrics.jsonl | sort -u | wc -l)" -eq 14 ] || fail "steps are missing or there twice: $(cat counts)"
    }
    run 0 checkpoint verify made
    [ "$(grep -c '"event":"under way",.*"seconds":[0-9]' made/events.jsonl)" -eq 2 ] || fail 'the events do not say how long two processes prepared'
    # a new run in the place of one that was never there, and of one without a word in it
    run 2 train --resume nowhere
    says err 'nowhere cannot be resumed'
fi
run 0 "${run[@]}" -q --resume -o fresh
same fresh 'a run that begins with --resume'

# what changes the result is refused by name, what does not is not
refused() {
    local words=$1
    shift
    rm -rf made && cp -r kept made
    run 2 "$@" -q --resume -o made
    one_sentence
    says err "$words"
    says err '--force'
    cmp -s kept/metrics.jsonl made/metrics.jsonl || fail "$words: a refused run has changed the metrics"
}
refused '--lr was 0.003 and is 0.001' "${run[@]}" --lr 0.001
refused 'the number of steps was 14 and is 15' "${run[@]}" --steps 15
refused '--batch-tokens was 250 and is 251' "${run[@]}" -b 251
refused '--schedule was "zerolock" and is "bp"' "${run[@]}" -s bp
refused '--seed was 0 and is 1' "${run[@]}" --seed 1
refused '--rank was 8 and is 4' "${run[@]}" --rank 4
refused 'the stages was' "${run[@]}" -k 3
sed -i '5s/Count/Caunt/' train.jsonl
refused 'the training rows are others than they were' "${run[@]}"
sed -i '5s/Caunt/Count/' train.jsonl
sed -i '5s/Count/Caunt/' held-out.jsonl
refused 'the held-out rows are others than they were' "${run[@]}"
sed -i '5s/Caunt/Count/' held-out.jsonl
cp model/model.safetensors weights
printf 'x' | dd of=model/model.safetensors bs=1 seek=$(($(wc -c <weights) - 2)) conv=notrunc 2>/dev/null
refused 'the model is another than it was' "${run[@]}"
mv weights model/model.safetensors
rm -rf made && cp -r kept made
run 0 "${run[@]}" --resume -o made --lr 0.001 --force
says err 'going on with another run than was begun: --lr was 0.003 and is 0.001'
rm -rf made && cp -r kept made
run 0 "${run[@]}" -q --resume -o made --checkpoint-every 1 --keep 1 --recompute full --checkpoint-minutes 0
same made 'with other options that do not matter'

# the newest checkpoint is damaged, or all are
run 0 "${run[@]}" -q -o worn --checkpoint-every 5 --keep 3
rm -r worn/adapter
for byte in 70000 5000; do
    newest=$(find worn/checkpoints -name '*.zlc' | sort | tail -n 1)
    printf 'x' | dd of="$newest" bs=1 seek=$byte conv=notrunc 2>/dev/null
    cp -r worn torn
    run 0 "${run[@]}" -q --resume -o torn
    says err "$(basename "$newest")"
    says err 'an older checkpoint will do'
    same torn 'a damaged checkpoint'
    rm -r torn "$newest"
done
find worn/checkpoints -name '*.zlc' -exec truncate -s 100 {} +
run 0 "${run[@]}" --resume -o worn
says err 'holds no checkpoint: from the beginning'
same worn 'checkpoints that are all damaged'

# a folder that is used again: the checkpoints of the run before, of later steps, are not this one's
run 0 "${run[@]}" -q -o again --checkpoint-every 5
run 0 "${run[@]}" -q -o again --force --steps 6 --checkpoint-every 3
run 0 checkpoint list again --json
! grep -q '"step": *14' out || fail 'checkpoints of the run before are still there'
says out '"step":6'
run 0 "${run[@]}" --resume -o again --steps 6
says err 'going on behind step 6 of 6'

# what killed writers left under temporary names goes when the folder is taken again; what only looks like it stays
left=(run.json.tmp-12-0 config.yaml.tmp-7-3 metrics.jsonl.tmp-1-99 events.jsonl.tmp-4711-0 readouts.safetensors.tmp-31)
others=(run.json.tmp- run.json.tmp-x-0 run.json.tmp-12-0~ run.json.tmp-12-0.old notes.tmp-12-0 adapter.tmp-8 adapter.tmp-9-0.old adapter.tmp-9-0)
touch "${left[@]/#/again/}" "${others[@]/#/again/}"
rm again/adapter.tmp-9-0{,.old}
for folder in adapter.tmp-12-0 adapter.tmp-13-1 adapter.tmp-9-0 adapter.tmp-9-0.old adapter.tmp-10-0; do
    mkdir "again/$folder"
    touch "again/$folder"/adapter_{config.json,model.safetensors}
done
touch again/adapter.tmp-12-0/adapter_model.safetensors.tmp-12 again/adapter.tmp-13-1/adapter_config.json.tmp-13-0 again/adapter.tmp-10-0/thesis.txt
echo precious >victim
ln -s ../victim again/run.json.tmp-13-0
ln -s .. again/adapter.tmp-14-0
run 2 "${run[@]}" -q -o again # refused: nothing is touched
[ -e again/run.json.tmp-12-0 ] || fail 'a refused run removes leftovers'
run 0 "${run[@]}" -q --resume -o again --steps 6
for name in "${left[@]}" adapter.tmp-12-0 adapter.tmp-13-1; do [ ! -e "again/$name" ] || fail "$name is left of a dead writer"; done
for name in "${others[@]}" run.json.tmp-13-0 adapter.tmp-14-0; do [ -e "again/$name" ] || fail "$name is none of ours and is gone"; done
[ -e again/adapter.tmp-10-0/thesis.txt ] && [ "$(cat victim)" = precious ] && [ -e train.jsonl ] || fail 'what is none of ours is gone'
[ -s again/adapter/adapter_model.safetensors ] || fail 'the adapter is gone'

# an adapter and no checkpoints: nothing to go on from, and nothing to lose
run 0 "${run[@]}" -q -o bare --keep 0
[ ! -e bare/checkpoints ] || fail '--keep 0 writes checkpoints'
run 2 "${run[@]}" -q --resume -o bare
one_sentence
says err 'no checkpoint to go on from'

# the readouts' maps are read and not fitted again; without their file they are
rm -rf made && cp -r kept made
rm made/readouts.safetensors
run 0 "${run[@]}" -q --resume -o made
same made 'maps that are fitted again'
finish
