#!/usr/bin/env bash
# A locale with a decimal comma changes nothing: not what is read, not what is written.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 3 20
one_core
comma=
for name in de_DE.UTF-8 de_DE.utf8 de_DE; do
    locale -a 2>/dev/null | grep -qx "$name" && comma=$name && break
done
if [ -z "$comma" ] && command -v localedef >/dev/null; then
    mkdir locales
    localedef -i de_DE -f UTF-8 locales/de_DE.UTF-8 >/dev/null 2>&1 && export LOCPATH=$work/locales comma=de_DE.UTF-8
fi
[ -n "$comma" ] || skip 'no locale with a decimal comma here'

options=(--lr 1e-4 --warmup 0.5 --weight-decay 1e-05 -l 256)
if has_config; then
    printf 'lr: 1e-4\nwarmup: 0.5\nweight-decay: 1e-05\nmax-length: 256\n' >options.yaml
    options=(--config options.yaml)
fi
once() { # NAME: train, evaluate and inspect, everything that is printed or written into NAME
    mkdir "$1"
    if "$zerolock" train "${options[@]}" model train.jsonl -o "$1/run" --steps 2 --clip 0.5 2>err; then
        "$zerolock" eval model held-out.jsonl --adapter "$1/run" --json --quiet -l 256 | sed 's/"seconds":[^,}]*//' >"$1/json"
        "$zerolock" eval model held-out.jsonl --adapter "$1/run" --quiet -l 256 >"$1/text"
        "$zerolock" inspect model --json >"$1/model"
        "$zerolock" inspect "$1/run" --tensors | grep -v '^adapter ' >"$1/adapter"
        mv "$1/run/adapter/adapter_model.safetensors" "$1/factors"
        sed '/^output/d' "$1/run/config.yaml" >"$1/config"
        grep -o '"\(loss\|lr\)":[^,]*' "$1/run/metrics.jsonl" >"$1/metrics"
        rm -r "$1/run"
    else
        fail "train in the locale of $1"
    fi
}
LC_ALL=C once point
LC_ALL=$comma once comma
diff -r point comma || fail 'the locale shows'
run 2 train model train.jsonl -o x --lr 1,5
finish
