#!/usr/bin/env bash
# kill.sh [--kills N] [--seed S]: runs of every schedule are killed at random instants, by SIGKILL or stopped by SIGTERM, and go on with
# --resume, each time with another number of threads, placement, ring depth and interval of checkpoints. In the end the adapter has the bytes
# of a run that was never interrupted, the metrics are the same numbers in the same lines, and the events prove that no update was lost or made
# twice.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
kills=60
seed=$RANDOM
while [ $# -gt 1 ]; do
    case $1 in
    --kills) kills=$2 ;;
    --seed) seed=$2 ;;
    *) fail "unknown option $1" ;;
    esac
    shift 2
done
echo "$kills kills, seed $seed"
RANDOM=$seed
make_tiny 6 200
most=$(nproc)
[ "$most" -le 2 ] || most=2

schedules=(
    '-s bp'
    '-s zerolock -k 3'
    '-s zerolock -k 2 -r ridge'
    '-s gpipe -k 3'
    '-s 1f1b -k 3'
    '-s 1f1b -k 2 --interleave 3'
    '-s pipedream -k 3'
    '-s pipedream -k 3 --vertical-sync'
    '-s async -k 3'
    '-s async -k 2 --lag 3'
    '-s async -k 3 --replay on'
    '-s sweep -k 2 --window 3'
)
run=(train model train.jsonl --steps 30 -b 300 -m 80 -l 256 --eval-data held-out.jsonl --eval-every 6 -q)

any() { echo "${@:RANDOM % $# + 1:1}"; }

# what the metrics say beside time and memory, in the order of steps
numbers() {
    sed -E 's/,"(seconds|tokens_per_second|stage_busy_seconds|stall_seconds|checkpoint_seconds|peak_pss_bytes|peak_private_bytes)":(\[[^]]*\]|[^,}]*)//g' "$1" |
        sort -t: -k2n
}

each=$(((kills + ${#schedules[@]} - 1) / ${#schedules[@]}))
for schedule in "${schedules[@]}"; do
    # shellcheck disable=SC2086
    run 0 "${run[@]}" $schedule --threads 1 -o straight --force
    rm -rf broken
    began=0 done=0 signals=
    while [ $done -lt $each ]; do
        changes=(--checkpoint-every "$(any 1 2 5)" --keep "$(any 1 2)")
        case $schedule in *bp* | *sweep*) ;; *) changes+=(--ring-depth "$(any 1 2 4)" --placement "$(any spread stacked)") ;; esac
        # shellcheck disable=SC2086
        "$zerolock" "${run[@]}" $schedule "${changes[@]}" --threads "$(any 1 1 "$most")" --resume -o broken >out 2>err </dev/null &
        pid=$!
        sleep "0.$(printf %03d $((20 + RANDOM % 300)))" # not while the child is still this shell, with its trap
        signal=$(any KILL KILL TERM)
        kill -"$signal" $pid 2>/dev/null && done=$((done + 1)) signals="$signals ${signal:0:1}"
        wait $pid 2>/dev/null
        status=$?
        case $signal.$status in
        KILL.137) ;;
        TERM.143) ;; # it came before the program had asked to hear of it: nothing was begun
        TERM.1) grep -q 'stopped by a signal' err || fail "$schedule: it says something else than who stopped it" ;;
        *.0)
            cmp -s straight/adapter/adapter_model.safetensors broken/adapter/adapter_model.safetensors ||
                fail "$schedule: another adapter after $signals (seed $seed)"
            began=$((began + 1))
            rm -rf broken
            ;;
        *) fail "$schedule: status $status after $signals (seed $seed)" ;;
        esac
        [ "$failures" -lt 5 ] || finish
    done
    # shellcheck disable=SC2086
    run 0 "${run[@]}" $schedule --resume -o broken
    cmp -s straight/adapter/adapter_model.safetensors broken/adapter/adapter_model.safetensors ||
        fail "$schedule: another adapter after $signals (seed $seed)"
    run 0 checkpoint verify broken
    says out "events: "
    proof=$(grep '^events: ' out)
    diff <(numbers straight/metrics.jsonl) <(numbers broken/metrics.jsonl) >difference ||
        fail "$schedule: other metrics after $signals (seed $seed): $(head -n 4 difference)"
    echo "$schedule: $done signals, $((began + 1)) runs to the end, 0 bytes differ (bound 0); ${proof#events: }"
done
finish
