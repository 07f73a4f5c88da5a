#!/usr/bin/env bash
# A sweep through the program: the adapter of zerolock, with and without io_uring, on a disk that is too small, and stopped.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
one_core
make_tiny 6 60
common=(model train.jsonl --steps 6 --batch-tokens 256 -l 256 --look-ahead 1 --stages 3 --train-map off)

run 0 train "${common[@]}" -o by-zerolock -q
run 0 train "${common[@]}" -o by-sweep --schedule sweep --window 2 -q
silent err
cmp -s by-zerolock/adapter/adapter_model.safetensors by-sweep/adapter/adapter_model.safetensors || fail 'a sweep trains another adapter'
ls by-sweep | grep -q spill && fail 'a spill is left behind'

# a sweep leaves its maps as they were fitted unless it is told otherwise; then it trains as zerolock does
run 0 train "${common[@]:0:12}" -o untold --schedule sweep -q
cmp -s by-zerolock/adapter/adapter_model.safetensors untold/adapter/adapter_model.safetensors || fail 'a sweep trains its maps unasked'
for schedule in zerolock sweep; do
    run 0 train "${common[@]}" --train-map on -o maps-$schedule --schedule $schedule --force -q
done
cmp -s maps-zerolock/adapter/adapter_model.safetensors maps-sweep/adapter/adapter_model.safetensors || fail 'a sweep trains its maps otherwise'
cmp -s maps-zerolock/adapter/adapter_model.safetensors by-zerolock/adapter/adapter_model.safetensors && fail 'maps that train change nothing'

# the same bytes without io_uring, which is said once
status=0
"$ZL_BUILDDIR/tests/cli/without-uring" "$zerolock" train "${common[@]}" -o plain --schedule sweep >out 2>err </dev/null || status=$?
if [ $status -eq 77 ]; then
    echo 'skipped: this kernel takes no filter of system calls'
else
    [ $status -eq 0 ] || fail "without io_uring: status $status"
    [ "$(grep -c 'io_uring cannot be had' err)" -le 1 ] || fail 'the note comes more than once'
    cmp -s by-zerolock/adapter/adapter_model.safetensors plain/adapter/adapter_model.safetensors || fail 'another adapter without io_uring'
fi

# frozen stages computed once
run 0 train "${common[@]}" -o often --freeze 0 -q
run 0 train "${common[@]}" -o once --freeze 0 --cache-frozen -q
cmp -s often/adapter/adapter_model.safetensors once/adapter/adapter_model.safetensors || fail '--cache-frozen changed the adapter'
run 0 train "${common[@]}" -o none --cache-frozen
says err '--cache-frozen has no effect where stage 0 is not frozen'

# no place for the spill: before any work, and nothing is left
run 1 train "${common[@]}" -o nowhere --schedule sweep --spill-dir not-there -q
one_sentence
says err 'not-there: no file for spilled'
[ ! -e nowhere ] || fail 'a refused run left its folder'

# stopped inside a window: what whole windows trained is there, and the lock is gone
"$zerolock" train model train.jsonl --steps 1000000 --batch-tokens 128 -l 256 --stages 3 --schedule sweep --window 3 -o stopped >out 2>err </dev/null &
pid=$!
for _ in $(seq 1200); do
    grep -qs '"step":3,' stopped/metrics.jsonl && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
done
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
[ $status -eq 1 ] || fail "a sweep that is stopped: status $status"
last=$(tail -n 1 stopped/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
[ $((last % 3)) -eq 0 ] || fail "step $last is not at the end of a window"
says err "stopped by a signal after step $last of 1000000"
[ -e stopped/adapter/adapter_model.safetensors ] || fail 'no adapter of the whole windows'
finish
