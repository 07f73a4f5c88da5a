#!/usr/bin/env bash
# A row whose numbers are not finite: the run goes back to a checkpoint, leaves the micro-batch out, says which rows were in it, and ends with the same
# adapter wherever it went back to; numbers that stay bad end it with a sentence.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 200 poisoned
one_core
sed -i '57s/Count/Count @/' train.jsonl
run=(train model train.jsonl -t q_proj,v_proj --steps 40 -b 300 -m 80 -l 256 -q)

for schedule in '-s bp' '-s zerolock -k 3 -r lens' '-s 1f1b -k 3' '-s pipedream -k 3' '-s async -k 2'; do
    first=
    for every in 1 7 1000; do
        rm -rf went
        # shellcheck disable=SC2086
        run 0 "${run[@]}" $schedule -o went --checkpoint-every $every
        grep -q 'left out, .*"train.jsonl:57"' err || fail "$schedule: the row is not named"
        sum=$(cksum <went/adapter/adapter_model.safetensors)
        [ "${first:=$sum}" = "$sum" ] || fail "$schedule: another adapter with a checkpoint every $every steps"
        grep -o '"step":[0-9]*' went/metrics.jsonl >steps
        [ "$(sort -u steps | wc -l)" -eq 40 ] && [ "$(wc -l <steps)" -eq 40 ] || fail "$schedule: metrics with gaps or twice the same step"
        ! grep -q '"loss":null' went/metrics.jsonl || fail "$schedule: a loss that is no number in the metrics"
        run 0 checkpoint verify went
        grep -q '187 micro-batches in 40 of 40 steps, .* 2 left out' out || fail "$schedule: another proof: $(grep events out)"
        [ "$(grep -c '"event":"skipped"' went/events.jsonl)" -eq 2 ] || fail "$schedule: not two micro-batches left out"
    done
    # and when it is killed meanwhile
    rm -rf went
    for delay in 0.05 0.10 0.15 0.20; do
        # shellcheck disable=SC2086
        "$zerolock" "${run[@]}" $schedule -o went --checkpoint-every 2 --resume >out 2>err </dev/null &
        pid=$!
        sleep $delay
        kill -KILL $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
    # shellcheck disable=SC2086
    run 0 "${run[@]}" $schedule -o went --resume
    [ "$first" = "$(cksum <went/adapter/adapter_model.safetensors)" ] || fail "$schedule: another adapter after it was killed"
    run 0 checkpoint verify went
    echo "$schedule: 2 micro-batches left out, 0 bytes differ (bound 0)"
done

# every row: given up, with what to do
sed -i 's/Count/Count @/' train.jsonl
run 1 "${run[@]}" -s bp -o hopeless
says err 'after 3 micro-batches shortly before it were left out'
says err 'lower --lr'
[ ! -e hopeless/adapter ] || fail 'an adapter of nothing'

# a jump of the loss, by a row of noise among regular ones
rm -rf model train.jsonl held-out.jsonl
make_tiny 6 400
noise=qXvTzKpWjRyBnGhQmLcFxUdSoEaViZtJkYwPbNrHgMfCqXlDsUeAoIvTzKpW
sed -i "320s/\"completion\": \"[^\"]*\"/\"completion\": \"$noise\"/" train.jsonl
first=
for every in 3 1000; do
    rm -rf went
    run 0 train model train.jsonl -s bp -e 3 -b 300 -m 80 -l 256 --lr 0.01 -q -o went --checkpoint-every $every --max-spike 4
    says err 'deviations above the mean; its rows: ["train.jsonl:320"]'
    sum=$(cksum <went/adapter/adapter_model.safetensors)
    [ "${first:=$sum}" = "$sum" ] || fail "a spike: another adapter with a checkpoint every $every steps"
    run 0 checkpoint verify went
done
finish
