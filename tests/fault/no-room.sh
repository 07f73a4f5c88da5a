#!/usr/bin/env bash
# Where a run has no room: a full disk under checkpoints, metrics and adapter; too little of it before the start; a folder that goes away; and a
# /dev/shm of 1 MiB. Training goes on while it can, what was good stays good, and what was lost is said. In a mount namespace of its own.
if [ -z "${ZL_IN_NAMESPACE:-}" ]; then
    unshare -rm true 2>/dev/null || {
        echo 'skipped: no mount namespace is to be had here'
        exit 77
    }
    ZL_IN_NAMESPACE=1 exec unshare -rm bash "$0" "$@"
fi
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 200
one_core
mkdir small
mount -t tmpfs -o size=3m tmpfs small 2>/dev/null || skip 'no tmpfs can be mounted here'
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
run=(train model train.jsonl -s bp --steps 300 -b 300 -m 80 -l 256)
run 0 "${run[@]}" -q -o straight
same() { cmp -s straight/adapter/adapter_model.safetensors "$1/adapter/adapter_model.safetensors" || fail "$2: another adapter"; }

until_there() {
    for _ in $(seq 1200); do
        grep -qs -- "$2" "$1" && return
        sleep 0.02
    done
    fail "no '$2' in $1"
}
start() {
    "$zerolock" "$@" >out 2>err </dev/null &
    pid=$!
}
ended() {
    local status=0
    wait "$pid" || status=$?
    [ "$status" -eq "$1" ] || fail "$2: status $status, expected $1"
}
fill() { head -c 10m /dev/zero >small/filler 2>/dev/null; }

# the disk fills up and is freed again: lines and checkpoints that could not be written follow
start "${run[@]}" --steps 6000 -o small/run --checkpoint-every 10
until_there small/run/events.jsonl '"checkpointed"'
fill
until_there err 'the checkpoint behind step'
until_there err 'training goes on'
rm small/filler
kill -TERM "$pid"
ended 1 'a disk that was full for a while'
says err 'stopped by a signal'
run 0 checkpoint verify small/run
last=$(tail -n 1 small/run/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
[ "$(grep -c '"loss"' small/run/metrics.jsonl)" -eq "$last" ] || fail 'lines of the metrics are missing'
rm -rf small/run

# full until the end: the last good checkpoint stands, and goes on to the same adapter when there is room
start "${run[@]}" -o small/run --checkpoint-every 10 --keep 1
until_there small/run/events.jsonl '"checkpointed"'
fill
ended 1 'a disk that stays full'
until_there err 'No space left on device'
[ ! -e small/run/adapter/adapter_config.json ] || fail 'an adapter where there is no room'
rm small/filler
run 0 checkpoint list small/run
says out current
run 0 train --resume small/run -q
same small/run 'a disk that was full'
run 0 checkpoint verify small/run
rm -rf small/run
echo 'a full disk: 0 bytes differ (bound 0)'

# too little before the start
fill
run 1 "${run[@]}" -q -o small/run
one_sentence
rm -rf small/filler small/run
run 1 "${run[@]}" -q -o small/run --keep 1000
one_sentence
says err 'must fit'
[ ! -e small/run/adapter ] || fail 'it trained'
rm -rf small/run

# read-only from one moment to the next
start "${run[@]}" --steps 6000 -o small/run --checkpoint-every 10
until_there small/run/events.jsonl '"checkpointed"'
if mount -o remount,ro small 2>/dev/null; then
    until_there err 'training goes on'
    kill -TERM "$pid"
    ended 1 'a file system that turned read-only'
    mount -o remount,rw small
    run 0 checkpoint list small/run
    says out current
else
    kill -TERM "$pid"
    ended 1 'nothing'
fi
rm -rf small/run

# the folder goes away
start "${run[@]}" -o small/run --checkpoint-every 10
until_there small/run/events.jsonl '"checkpointed"'
mv small/run small/elsewhere
ended 1 'a folder that goes away'
run 0 checkpoint list small/elsewhere
says out current
run 0 train --resume small/elsewhere -q
same small/elsewhere 'a folder that was moved'

# shared memory too small for the rings, and for their names
mount -t tmpfs -o size=1m tmpfs /dev/shm 2>/dev/null || finish
run 0 "${run[@]}" -o shm --ring-depth 900 -s zerolock
says err 'so the rings are in anonymous memory'
run 0 "${run[@]}" -q -o shm-supervised --supervise
same shm-supervised 'little shared memory'
finish
