#!/usr/bin/env bash
# train --supervise: a run that is killed or hangs is started again and ends with the adapter of one that was not; a run that ends by itself has
# ended; signals reach it once; and what dies again and again is given up.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 200
one_core
run=(train model train.jsonl -s bp --steps 2000 -b 300 -m 80 -l 256)
run 0 "${run[@]}" -q -o straight

start() {
    "$zerolock" "$@" >out 2>err </dev/null &
    pid=$!
}

# child: the run's process, in $child; another one than $child was
next_child() {
    local before=${child:-}
    for _ in $(seq 1200); do
        child=$(pgrep -P "$pid" | head -n 1)
        [ -z "$child" ] || [ "$child" = "$before" ] || return
        sleep 0.05
    done
    fail "no process was started after $before"
}

# until_there FILE PATTERN: within a minute
until_there() {
    for _ in $(seq 1200); do
        grep -qs -- "$2" "$1" && return
        sleep 0.05
    done
    fail "no '$2' in $1"
}

# ended STATUS WHAT
ended() {
    local status=0
    wait "$pid" || status=$?
    [ "$status" -eq "$1" ] || fail "$2: status $status, expected $1"
    child=
}

same() { cmp -s straight/adapter/adapter_model.safetensors "$1/adapter/adapter_model.safetensors" || fail "$1: another adapter"; }

# killed, then stopped without a word
start "${run[@]}" -o kept --supervise --hang-seconds 2 --checkpoint-every 20
next_child
until_there kept/events.jsonl '"checkpointed"'
kill -KILL "$child"
next_child
until_there kept/events.jsonl '"restored"'
sleep 0.3
kill -STOP "$child"
next_child
ended 0 'a run that was killed and hung'
same kept
says err 'was ended by signal 9'
says err 'gave no sign of life for 2 seconds'
[ "$(grep -c '"died"' kept/events.jsonl)" -eq 2 ] || fail "not two deaths in events.jsonl: $(grep '"died"' kept/events.jsonl)"
[ "$(grep -cF '200 of 200 rows kept' err)" -eq 1 ] || fail "the data's report is not printed once: $(cat err)"
[ "$(grep -c 'going on behind step' err)" -eq 2 ] || fail 'not two times going on'
run 0 checkpoint verify kept
says out 'each trained on once'
! compgen -G "/dev/shm/zerolock-$pid-*" >/dev/null || fail 'a segment of the supervisor'
[ "$failures" -eq 0 ] && echo 'killed and hung: 0 bytes differ (bound 0)'

# a machine that was paused has stopped both: nothing hangs
start "${run[@]}" -o paused --supervise --hang-seconds 4 --checkpoint-every 20
next_child
until_there paused/events.jsonl '"checkpointed"'
kill -STOP "$pid" "$child"
sleep 8
kill -CONT "$pid"
sleep 1 # what was stopped with it goes on a little later
kill -CONT "$child"
ended 0 'a run that was paused'
same paused
! grep -q '"died"' paused/events.jsonl || fail 'a run that was paused with its parent was taken for dead'

# a signal to the parent, to both, and twice
for signals in parent both; do
    start "${run[@]}" --steps 1000000 -o "stop-$signals" --supervise
    next_child
    until_there "stop-$signals/metrics.jsonl" '"step":3,'
    last=$child
    [ $signals = both ] && kill -TERM "$child"
    kill -TERM "$pid"
    ended 1 "TERM to $signals"
    ! kill -0 "$last" 2>/dev/null || fail "TERM to $signals: the run is still there"
    says err 'stopped by a signal after step'
    [ -s "stop-$signals/adapter/adapter_config.json" ] || fail "TERM to $signals: no adapter"
    run 0 checkpoint verify "stop-$signals"
done

# the parent is killed: nobody is left behind
start "${run[@]}" --steps 1000000 -o orphan --supervise
next_child
until_there orphan/metrics.jsonl '"step":3,'
last=$child
kill -KILL "$pid"
ended 137 'the parent is killed'
for _ in $(seq 200); do kill -0 "$last" 2>/dev/null || break; sleep 0.05; done
! kill -0 "$last" 2>/dev/null || fail 'the run outlives its parent'
run 0 checkpoint verify orphan

# what ends by itself has ended
printf '{"text": 1}\n' >broken.jsonl
run 1 train model broken.jsonl -q -o broken --supervise
one_sentence
run 2 "${run[@]}" -q -o kept --supervise
one_sentence

# data that can be read once only
mkfifo once
for data in once /dev/stdin; do
    cat train.jsonl | timeout 20 "$zerolock" train model "$data" -q -o once-only --supervise >out 2>err
    [ "${PIPESTATUS[1]}" -eq 2 ] || fail "$data under --supervise is not refused"
    says err "$data is no file"
done
run 2 train model train.jsonl -q -o once-only --supervise --eval-data once
says err 'once is no file'

# a second of the processor, again and again, and never a checkpoint
(ulimit -t 1 && exec "$zerolock" "${run[@]}" --steps 1000000 -q -o hopeless --supervise --checkpoint-minutes 0) >out 2>err
[ $? -eq 1 ] || fail 'a run that dies again and again is not given up with 1'
says err 'the 5th time without a new checkpoint; it is not started again'
[ "$(grep -c 'it is started again' err)" -eq 4 ] || fail 'not four new starts'
finish
