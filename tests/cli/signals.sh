#!/usr/bin/env bash
# Signals and files that change under a run: it ends soon, says why, and leaves a folder that is whole or none.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 40
one_core
mkfifo rows

start() {
    "$zerolock" "$@" >out 2>err </dev/null &
    pid=$!
}

# ended STATUS WHAT: the program started last ends by itself within two minutes
ended() {
    local status=0
    for _ in $(seq 1200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$pid" 2>/dev/null && fail "$2: it does not end" && kill -KILL "$pid"
    wait "$pid" || status=$?
    [ "$status" -eq "$1" ] || fail "$2: status $status, expected $1"
}

# until_there FILE [PATTERN]
until_there() {
    for _ in $(seq 1200); do
        grep -qs -- "${2:-}" "$1" && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    fail "no '${2:-}' in $1"
}

# feed COUNT: so many times the training rows (0: without end) into the pipe; ./feeding appears when it is open, ./fed when all is read
feed() {
    rm -f feeding fed
    (
        exec 3>rows
        echo yes >feeding
        for ((i = 1; $1 == 0 || i <= $1; i++)); do cat train.jsonl >&3 || exit; done
        echo yes >fed
    ) 2>/dev/null &
}

long=(train model train.jsonl --steps 1000000 --batch-tokens 256 -l 256)
for signal in TERM INT HUP; do
    trap -p HUP | grep -q "''" && [ $signal = HUP ] && continue # started with nohup: it stays ignored
    start "${long[@]}" -o "run-$signal"
    until_there "run-$signal/metrics.jsonl" '"step":3,'
    kill -$signal "$pid"
    ended 1 "$signal while training"
    last=$(tail -n 1 "run-$signal/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')
    says err "stopped by a signal after step $last of 1000000"
    says err "zerolock: $last steps, "
    run 0 eval model held-out.jsonl -l 256 -q --adapter "run-$signal"
done
run 0 train model train.jsonl --steps 1 -l 256 -o run-TERM --force -q # the lock went with the run

# while rows are read, in train and in eval
for command in "train model rows -o unborn" "eval model rows"; do
    feed 0
    # shellcheck disable=SC2086
    start $command -l 256
    until_there feeding yes
    kill -TERM "$pid"
    ended 1 "TERM while ${command%% *} reads rows"
    one_sentence
    says err 'stopped by a signal before the work began'
    [ ! -e unborn/adapter ] || fail 'a run that never began has left an adapter'
done
run 0 train model train.jsonl --steps 1 -l 256 -q -o unborn # what is left there does not stand in the way

# while held-out rows are evaluated, in eval and before the first step of train
for command in "eval model rows" "train model train.jsonl --eval-data rows -o early"; do
    feed 500
    # shellcheck disable=SC2086
    start $command -l 256 --quiet
    until_there fed yes
    kill -TERM "$pid"
    ended 1 "TERM while ${command%% *} evaluates"
    one_sentence
    says err 'stopped by a signal'
    [ ! -e early/adapter ] || fail 'an adapter that was never trained'
done

# while it waits for rows that do not come
rm -f feeding
(exec 3>rows && echo yes >feeding && exec sleep 120) &
holder=$!
start eval model rows -l 256
until_there feeding yes
kill -TERM "$pid"
ended 1 'TERM while nothing comes'
kill $holder

# the weights are cut short under a run
start "${long[@]}" -o cut
until_there cut/metrics.jsonl '"step":3,'
truncate -s 5000 model/model.safetensors
ended 1 'a file that shrinks'
grep -q '^zerolock: model/model.safetensors: byte [0-9]* can no longer be read' err || fail 'the file is not named'
finish
