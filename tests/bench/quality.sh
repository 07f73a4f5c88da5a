#!/usr/bin/env bash
# What each way of training reaches at equal tokens: the share of backpropagation's gain in held-out loss that it closes, on answers
# (gsm8k), labels (agnews, with accuracy) and running text (shakespeare), over several seeds; with layer passes a token and CPU seconds.
#
#     tests/bench/quality.sh ZEROLOCK MODEL DATA-FOLDER OUT [METHOD...]     train what OUT/results.tsv lacks, then print the table
#     SEEDS="0 1 2" TASKS="gsm8k agnews shakespeare" THREADS=1              are the defaults; OPTIONS="--compute bf16" goes to every run
#
# One line a run in OUT/results.tsv: task, method, seed, loss before, loss after, training tokens, CPU seconds of the command, layer passes a
# token (one layer's forward is one; the backward of a layer is one more), right answers, answers. Not part of make check.
set -euo pipefail
zerolock=$1 model=$2 data=$3 out=$4
shift 4
mkdir -p "$out"
results=$out/results.tsv
touch "$results"

# name: options. Everything else is the default.
methods() {
    cat <<'END'
bp              --schedule bp
zerolock        --schedule zerolock
zerolock-3      --schedule zerolock --stages 3
ridge           --schedule zerolock --readout ridge
lens            --schedule zerolock --readout lens
paper           --schedule zerolock --preset paper
bp-paper        --schedule bp --preset paper
last-10         --schedule bp --train-layers 10
last-20         --schedule bp --train-layers 20
async           --schedule async --micro-batch-tokens 128
async-3         --schedule async --stages 3 --micro-batch-tokens 128
async-lag-3     --schedule async --micro-batch-tokens 128 --lag 3
async-replay    --schedule async --micro-batch-tokens 128 --replay on --lag 1
END
}

# task: the files, small and always the same, and the options of all its runs
prepare() {
    case $1 in
    gsm8k)
        head -n 400 "$data/gsm8k/train.jsonl" >"$out/gsm8k-train.jsonl"
        head -n 40 "$data/gsm8k/test_0_699.jsonl" >"$out/gsm8k-held-out.jsonl"
        files="$out/gsm8k-train.jsonl $out/gsm8k-held-out.jsonl"
        options='--steps 20 --batch-tokens 512 --max-length 256'
        ;;
    agnews)
        head -n 512 "$data/agnews/train.jsonl" >"$out/agnews-train.jsonl"
        head -n 128 "$data/agnews/dev.jsonl" >"$out/agnews-held-out.jsonl"
        files="$out/agnews-train.jsonl $out/agnews-held-out.jsonl"
        options='--epochs 1 --batch-tokens 1024 --max-length 256'
        ;;
    shakespeare)
        head -c 200000 "$data/text/shakespeare.txt" >"$out/shakespeare-train.txt"
        tail -c 16000 "$data/text/shakespeare.txt" >"$out/shakespeare-held-out.txt"
        files="$out/shakespeare-train.txt $out/shakespeare-held-out.txt"
        options='--steps 20 --batch-tokens 512 --max-length 256'
        ;;
    *)
        echo "quality.sh: no task $1" >&2
        exit 2
        ;;
    esac
}

# Layers that a token goes through, forward and backward; a replay makes the forwards of all stages but the last twice.
passes() {
    jq -r '.first_trained_layer as $line | (.replay // false) as $again | (.stages | length) as $n | [.stages | to_entries[] | .key as $k | .value
        | (.layers + .look_ahead) as $all
        | ([([$line - .first_layer, 0] | max), .layers] | min) as $lead
        | if .frozen then .layers else $all + $all - $lead + (if $again and $k + 1 < $n then .layers else 0 end) end] | add' "$1"
}

train() {
    local task=$1 method=$2 seed=$3 run=$out/run train held
    shift 3
    prepare "$task"
    read -r train held <<<"$files"
    # shellcheck disable=SC2086
    local TIMEFORMAT='%U %S' user system
    { time "$zerolock" train "$model" "$train" -o "$run" --force --quiet --seed "$seed" --eval-data "$held" --lr 0.003 --threads "${THREADS:-1}" \
        $options ${OPTIONS:-} "$@" 2>"$out/said"; } 2>"$out/time" || {
        cat "$out/said" >&2
        return 1
    }
    read -r user system <"$out/time"
    local right=0 answers=0
    if [ "$task" = agnews ]; then
        "$zerolock" eval "$model" --adapter "$run" "$held" --quiet --json --exact-match --max-new-tokens 4 --max-length 256 >"$out/eval.json" || return
        right=$(jq .matched "$out/eval.json") answers=$(jq .compared "$out/eval.json")
    fi
    jq -rs --arg head "$task	$method	$seed" --arg passes "$(passes "$run/run.json")" --arg tail "$right	$answers" --arg cpu "$(jq -n "$user + $system")" '
        [.[] | select(.eval_loss)] as $e | [.[] | select(.loss)] as $s
        | [$head, ($e[0].eval_loss), ($e[-1].eval_loss), ($s[-1].tokens_total), $cpu, $passes, $tail] | map(tostring) | join("\t")' \
        "$run/metrics.jsonl" >>"$results"
}

for seed in ${SEEDS:-0 1 2}; do
    for task in ${TASKS:-gsm8k agnews shakespeare}; do
        while read -r method options_of; do
            if [ $# -gt 0 ] && [[ " $* " != *" $method "* ]]; then
                continue
            fi
            if grep -q "^$task	$method	$seed	" "$results"; then
                continue
            fi
            # shellcheck disable=SC2086
            train "$task" "$method" "$seed" $options_of </dev/null || echo "quality.sh: $task $method $seed failed" >&2
        done < <(methods)
    done
done

# Gap closed: by seed against bp of the same seed (bp-paper for paper's adapters too), then mean and standard deviation.
awk -F '\t' '
{ key = $1 FS $2; before[$1, $2, $3] = $4; after[$1, $2, $3] = $5; seeds[$3]; if (!(key in n)) order[++keys] = key; n[key]++
  tokens[key] = $6; time[key] += $7; passes[key] = $8; right[key] += $9; answers[key] += $10; loss[key] += $5 }
END {
    printf "%-12s %-12s %5s %8s %12s %8s %8s %8s %9s\n", "task", "method", "seeds", "loss", "gap closed", "passes", "tokens", "CPU s", "accuracy"
    for (i = 1; i <= keys; i++) {
        split(order[i], part, FS); m = 0; sum = 0; squares = 0
        for (s in seeds)
            if ((part[1], part[2], s) in after && (part[1], "bp", s) in after) {
                gap = (before[part[1], part[2], s] - after[part[1], part[2], s]) / (before[part[1], "bp", s] - after[part[1], "bp", s])
                sum += gap; squares += gap * gap; m++
            }
        mean = m ? sum / m : 0; sd = m > 1 ? sqrt((squares - m * mean * mean) / (m - 1) > 0 ? (squares - m * mean * mean) / (m - 1) : 0) : 0
        k = order[i]
        printf "%-12s %-12s %5d %8.4f %6.3f ±%.3f %8s %8s %8.0f %9s\n", part[1], part[2], n[k], loss[k] / n[k], mean, sd, passes[k], tokens[k], time[k] / n[k],
            answers[k] ? sprintf("%.3f", right[k] / answers[k]) : ""
    }
}' "$results"
