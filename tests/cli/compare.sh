#!/usr/bin/env bash
# compare: every entry runs under the same conditions, a failure is shown and ends nothing, and the page stands by itself.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 40
common=(model train.jsonl --steps 3 -b 256 -l 128 -m 128 --eval-data held-out.jsonl --threads 1)

run 1 compare "${common[@]}" --eval-every 1 --stages 2 --output results \
    --schedules 'bp,bp:recompute=full,zerolock:readout=ridge:placement=stacked,gpipe,1f1b:bounds=0+2+4:stages=3,async,sweep,zerolock:stages=9'
for entry in bp bp:recompute=full zerolock:readout=ridge:placement=stacked gpipe async sweep; do
    grep -Eq "^$entry +[0-9]+ " out || fail "no line for $entry: $(cat out)"
done
grep -q '^zerolock:stages=9 .*--stages 9: the model has 6 layers' out || fail 'the failed entry does not say why'
says err 'not every run came to its end'
says err 'page written to results/compare.html'
[ -s results/1-bp/trace.json ] && [ -s results/7-sweep/adapter/adapter_model.safetensors ] || fail 'a run left no trace or no adapter'

# equal conditions: the schedules with bp's gradients end with bp's adapter
for other in 2-bp-recompute=full 4-gpipe '5-1f1b-bounds=0+2+4-stages=3'; do
    cmp -s results/1-bp/adapter/adapter_model.safetensors "results/$other/adapter/adapter_model.safetensors" || fail "$other has another adapter"
done

# the figures
grep -c '"entry"' results/compare.json | grep -qx 8 || fail 'not eight runs in compare.json'
for key in command tokens_per_second idle idle_after_fill peak_activation_bytes peak_pss_bytes held_out stages forward_seconds problem; do
    grep -q "\"$key\"" results/compare.json || fail "compare.json lacks $key"
done

# the page: every run, pictures, losses; nothing from elsewhere; well-formed
page=results/compare.html
for part in '<svg class="zl"' '<svg class="ch"' 'Held-out loss' 'zerolock:readout=ridge:placement=stacked' 'the model has 6 layers' 'role="img"'; do
    grep -qF -- "$part" $page || fail "the page lacks $part"
done
sed 's#xmlns="http://www.w3.org/2000/svg"##g' $page | grep -nE '<script|https?:|src=|href=|url\(|@import' && fail 'the page takes something from elsewhere'
if command -v xmllint >/dev/null; then
    sed '1d; s/<meta [^>]*>//g; s/&emsp;//g' $page | xmllint --noout - || fail 'the page is not well-formed'
fi

# an entry's text cannot break the page
run 2 compare "${common[@]}" --schedules '<b>&' -o other
[ ! -e other ] || fail 'a refused comparison left its folder'

# what cannot be meant is known before the first run
run 2 compare "${common[@]}" -o results
says err 'holds the results of an earlier comparison'
for schedules in 'bp,mystery' 'bp:quiet' 'bp:stages=0' 'bp:recompute' 'zerolock:redout=lens' 'bp:trace=x' ',bp'; do
    run 2 compare "${common[@]}" -o other --schedules "$schedules"
    one_sentence
    [ ! -e other ] || fail "$schedules: a folder was made"
done
run 2 compare "${common[@]}" -o other --schedule bp
says err -- '--schedules'
run 2 compare "${common[@]}" -o other --learning-rate 1
says err "did you mean '--lr'"
run 2 compare "${common[@]}" -o other --lr 0

# JSON on standard output; an option of train holds for all, one in an entry for its own
run 0 compare "${common[@]}" -q --json -f -o results --schedules 'bp,bp:lr=0.5' --lr 0.001
silent err
says out '"runs"'
grep -q '^lr: 0.001$' results/1-bp/config.yaml || fail '--lr did not reach the first run'
grep -q '^lr: 0.5$' results/2-bp-lr=0.5/config.yaml || fail 'lr=0.5 did not reach the second run'

# a signal stops the run under way, and what there is is shown
"$zerolock" compare model train.jsonl --steps 100000 -b 256 -l 128 --threads 1 -o stopped --schedules bp,zerolock >out 2>err &
pid=$!
for _ in $(seq 100); do
    [ -s stopped/1-bp/metrics.jsonl ] && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
status=$?
[ $status -eq 1 ] || fail "stopped by a signal: status $status"
says err 'stopped by a signal'
grep -q '^zerolock  *not run' out || fail "the run that never began is not named: $(cat out)"
[ -s stopped/1-bp/adapter/adapter_model.safetensors ] || fail 'the run under way did not write its adapter'
finish
