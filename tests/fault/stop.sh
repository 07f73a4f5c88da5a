#!/usr/bin/env bash
# Signals while a checkpoint is being written, held at each call that the writer makes: one signal ends the run in order, a second one at once,
# and both times the folder is sound and goes on to the adapter of a run that was never stopped. The same right behind the start.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
inject=$ZL_BUILDDIR/tests/fault/.libs/libinject.so
[ -r "$inject" ] || skip 'the preload object is not built'
make_tiny 6 120
one_core
run=(train model train.jsonl --steps 14 -b 250 -m 64 -l 256 --eval-data held-out.jsonl --eval-every 5 --checkpoint-every 4 --keep 1 -q)
run 0 "${run[@]}" -o straight

# ended: the program started last, within two minutes; its status is in $status
ended() {
    for _ in $(seq 1200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$pid" 2>/dev/null && fail "$what: it does not end" && kill -KILL "$pid"
    status=0
    wait "$pid" 2>/dev/null || status=$?
}

# goes_on: the folder is sound and leads to the same adapter
goes_on() {
    if compgen -G 'run/checkpoints/*.zlc' >/dev/null; then
        run 0 checkpoint verify run
    fi
    run 0 "${run[@]}" -o run --resume
    cmp -s straight/adapter/adapter_model.safetensors run/adapter/adapter_model.safetensors || fail "$what: another adapter"
    run 0 checkpoint verify run
}

held=0
for call in openat:1 fallocate:1 enter:1 enter:2 pwrite:1 pwrite:5 close:1 renameat:1 renameat:2 fsync:3 fsync:5 unlinkat:1; do
    for signals in TERM 'TERM INT'; do
        rm -rf run
        what="$signals at $call"
        ZL_INJECT=$call:stop LD_PRELOAD=$inject ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 \
            "$zerolock" "${run[@]}" -o run >out 2>err </dev/null &
        pid=$!
        state=
        for _ in $(seq 600); do
            state=$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat" 2>/dev/null) || break
            [ "$state" != T ] || break
            [ "$state" != Z ] || break
            sleep 0.05
        done
        if [ "$state" != T ]; then # a call that is not made here, as those of the other back end
            ended
            [ "$status" -eq 0 ] || fail "$what: status $status where nothing was held"
            continue
        fi
        held=$((held + 1))
        for signal in $signals; do kill -"$signal" "$pid"; done
        began=$(date +%s%N)
        kill -CONT "$pid"
        ended
        longest=$(($(date +%s%N) - began > ${longest:-0} ? $(date +%s%N) - began : longest))
        case $signals.$status in
        TERM.1) says err 'stopped by a signal' ;;
        'TERM INT'.130 | 'TERM INT'.143) silent err ;;
        *) fail "$what: status $status" ;;
        esac
        goes_on
    done
done
[ "$held" -ge 12 ] || fail "only $held of the calls were made: this shows little"

# stopped in the midst of a step: its speed is that of its tokens in the time of both processes
midst=0
for schedule in bp zerolock pipedream; do
    for delay in 0.05 0.11; do
        what="$schedule stopped in the midst of a step after $delay s"
        slow=(train model train.jsonl --steps 4 -b 12000 -m 64 -l 256 -s "$schedule" -q -o run)
        rm -rf run
        "$zerolock" "${slow[@]}" >out 2>err </dev/null &
        pid=$!
        for _ in $(seq 1200); do
            grep -qs '"step":1,' run/metrics.jsonl && break
            sleep 0.02
        done
        sleep $delay
        kill -TERM "$pid"
        ended
        [ "$status" -eq 1 ] || fail "$what: status $status"
        grep -q '"admitted","time":[0-9]*,"step":2,' run/events.jsonl && ! grep -q '"step":2,"epoch"' run/metrics.jsonl && midst=$((midst + 1))
        sleep 0.3 # no part of any step
        run 0 "${slow[@]}" --resume
        sed -E 's/.*"step":([0-9]+),.*"tokens":([0-9]+),.*,"seconds":([0-9.e-]+),"tokens_per_second":([0-9.e-]+),.*/\1 \2 \3 \4/' run/metrics.jsonl |
            awk 'NF == 4 { n++; took = $3 - before; before = $3; off = $2 / $4 / took - 1; off = off < 0 ? -off : off; if (off > most) most = off }
                 END { printf "most of %d steps %.1e (bound 1e-4)", n, most; exit !(n == 4 && most < 1e-4) }' >speeds ||
            fail "$what: tokens_per_second is not tokens by seconds: $(cat speeds; cat run/metrics.jsonl)"
    done
done
[ "$midst" -ge 2 ] || fail "only $midst of the runs were stopped in the midst of a step"
echo "$midst runs stopped in the midst of a step: $(cat speeds)"

# right behind the start, wherever it is
for delay in 0.001 0.002 0.004 0.006 0.01 0.015 0.02 0.03 0.05 0.08; do
    rm -rf run
    what="TERM $delay s behind the start"
    "$zerolock" "${run[@]}" -o run >out 2>err </dev/null &
    pid=$!
    sleep $delay
    kill -TERM "$pid" 2>/dev/null
    ended
    case $status in
    0 | 1 | 143) ;; # 143: before there was anybody to hear it
    *) fail "$what: status $status" ;;
    esac
    goes_on
done
echo "$held calls held, the longest end after $((longest / 1000000)) ms; 0 bytes differ (bound 0)"
finish
