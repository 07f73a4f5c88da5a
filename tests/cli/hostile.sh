#!/usr/bin/env bash
# What a hostile or unlucky user does around a run: odd things in its folder, closed descriptors, limits. All of it stays in our folder.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 3 12
one_core
train=(train model train.jsonl -l 64 --steps 2 -q)

# a link or a FIFO in the place of a file of the run is refused, and what the link points to is left alone
for name in metrics.jsonl lock; do
    mkdir links && echo precious >victim && ln -s ../victim "links/$name"
    run 1 "${train[@]}" -o links --force
    one_sentence
    says err "links/$name is a symbolic link"
    [ "$(cat victim)" = precious ] || fail "a file was overwritten through the link $name"
    rm -r links
    mkdir fifos && mkfifo "fifos/$name"
    run 1 "${train[@]}" -o fifos --force
    one_sentence
    says err "fifos/$name"
    rm -r fifos
done

# a run that cannot start leaves the earlier one as it is
run 0 "${train[@]}" -o earlier
cp earlier/metrics.jsonl kept
run 1 train nowhere train.jsonl -o earlier --force -q
cmp -s kept earlier/metrics.jsonl || fail 'a run that could not start emptied the metrics of the earlier one'
run 0 "${train[@]}" -o earlier --force
[ "$(wc -l <earlier/metrics.jsonl)" -eq 2 ] || fail 'the metrics of two runs are mixed'

# that the adapter has no place is said before training
mkdir -p taken/adapter && echo precious >taken/adapter/thesis.txt
run 2 "${train[@]}" -o taken --force
says err 'holds thesis.txt'
[ ! -s taken/metrics.jsonl ] || fail 'it trained although the adapter has no place'
touch plain
run 1 "${train[@]}" -o plain
one_sentence
says err 'plain is a file'

# closed descriptors: nothing that is said ends up in a file of the run
run 0 train model train.jsonl -l 64 --steps 2 -o open
for closed in '<&-' '>&-' '2>&-' '<&- 2>&-'; do
    rm -rf closed
    eval "\"\$zerolock\" train model train.jsonl -l 64 --steps 2 -o closed $closed" 2>>err >>out || fail "training with $closed"
    cmp -s open/adapter/adapter_model.safetensors closed/adapter/adapter_model.safetensors || fail "another adapter with $closed"
    [ ! -s closed/lock ] || fail "something was written into the lock with $closed"
    ! grep -v '^{' closed/metrics.jsonl || fail "something was written into the metrics with $closed"
done
"$zerolock" eval model held-out.jsonl -l 64 -q >&- 2>err && fail 'a result that cannot be written goes unnoticed'
says err 'cannot write to standard output'

# a file that may not grow is an error like a full disk: no adapter, nothing temporary
(ulimit -f 1 && exec "$zerolock" "${train[@]}" -o limited --rank 64) >out 2>err
[ $? -eq 1 ] || fail 'the limit of the size of files does not end the run with 1'
one_sentence
for left in limited/*; do
    case $left in
    */lock | */metrics.jsonl | */events.jsonl | */config.yaml | */run.json) ;;
    *) fail "left over: $left" ;;
    esac
done

# numbers that float32 cannot hold would mean something else than they say
for given in '--alpha 1e300' '--alpha 1e-300' '--beta1 0.9999999999999999' '--beta2 0.9999999999999999' '--adam-eps 1e-300' '--clip 1e-300' '--lr 1e-300'; do
    # shellcheck disable=SC2086
    run 2 "${train[@]}" -o refused $given
    one_sentence
    says err "${given%% *} is too"
done
run 2 "${train[@]}" -o refused --stages 64
says err '--stages 64:'
# a learning rate far too high may end well or be stopped, but never leaves an adapter of NaN
"$zerolock" train model train.jsonl -l 64 --steps 20 -q -o diverged --lr 1000 --warmup 0 --clip 0 >out 2>err
[ $? -le 1 ] || fail 'a learning rate far too high does not end with 0 or 1'
[ ! -d diverged/adapter ] || "$zerolock" eval model held-out.jsonl -l 64 -q --adapter diverged >out 2>err || fail 'the adapter cannot be read'

# what the files of the run could not name is refused before training
bad=$(printf 'm\377')
if cp -r model "$bad" 2>/dev/null; then
    run 2 train "$bad" train.jsonl -l 64 -q -o named
    one_sentence
    run 2 "${train[@]}" -o "$bad-run"
    one_sentence
fi
run 0 "${train[@]}" -o $'a folder\nof two lines'

# what has to be a file is not waited for where it is none: a model, each file of its folder, of an adapter's and of a run's
mkfifo fifo
refuses_fifo() {
    local file=$1 status=0
    shift
    timeout 20 "$zerolock" "$@" >out 2>err </dev/null || status=$?
    [ "$status" -eq 1 ] || fail "a FIFO as $file: status $status, expected 1: $*"
    one_sentence
    says err "$file is a FIFO, expected a file"
}
refuses_fifo fifo train fifo train.jsonl -l 64 -q -o waiting
refuses_fifo fifo inspect fifo
for file in model/*; do
    cp -r model whole && rm "$file" && mkfifo "$file"
    refuses_fifo "$file" train model train.jsonl -l 64 -q -o waiting
    rm -r model && mv whole model
done
for file in config.json tokenizer.json tokenizer_config.json special_tokens_map.json generation_config.json chat_template.jinja \
    model.safetensors model.safetensors.index.json; do
    cp -r model whole && rm -f "model/$file" && mkfifo "model/$file"
    [ "$file" != model.safetensors.index.json ] || rm model/model.safetensors
    refuses_fifo "model/$file" train model train.jsonl -l 64 -q -o waiting
    rm -r model && mv whole model
done
for file in adapter/adapter_config.json adapter/adapter_model.safetensors; do
    cp -r open fifos && rm "fifos/$file" && mkfifo "fifos/$file"
    refuses_fifo "fifos/$file" eval model held-out.jsonl -l 64 -q --adapter fifos
    refuses_fifo "fifos/$file" generate model -q --adapter fifos hello
    refuses_fifo "fifos/$file" inspect fifos
    rm -r fifos
done
cp -r open fifos && rm fifos/events.jsonl && mkfifo fifos/events.jsonl
refuses_fifo fifos/events.jsonl checkpoint verify fifos
rm fifos/config.yaml && mkfifo fifos/config.yaml
refuses_fifo fifos/config.yaml train --resume fifos
rm -r fifos
# data may be a pipe
rm -rf piped
"$zerolock" train model /dev/stdin -l 64 --steps 2 -q -o piped <<<"$(cat train.jsonl)" >out 2>err || fail 'data from a here-document'
cat train.jsonl | "$zerolock" train model /dev/stdin -l 64 --steps 2 -q -o piped --force >out 2>err || fail 'data from a pipe'
cmp -s open/adapter/adapter_model.safetensors piped/adapter/adapter_model.safetensors || fail 'another adapter with data from a pipe'

# ends PID SECONDS: the process is gone within that time, its status is in $status
ends() {
    local i
    for ((i = 0; i < $2 * 20; i++)); do
        kill -0 "$1" 2>/dev/null || { wait "$1"; status=$?; return; }
        sleep 0.05
    done
    kill -KILL "$1"
    wait "$1"
    fail "process $1 is still there after $2 seconds"
    status=none
}

# begin_run FOLDER MODEL: a long run, in the background, that has done a step; its number is in $pid
begin_run() {
    env --default-signal=INT,HUP "$zerolock" train "$2" train.jsonl -l 64 -q -o "$1" --steps 1000000 --batch-tokens 256 >long.out 2>long.err &
    pid=$!
    for ((i = 0; i < 1200; i++)); do
        [ ! -s "$1/metrics.jsonl" ] || break
        sleep 0.05
    done
}

for signal in TERM INT HUP; do
    # while it reads: at once, there is nothing to finish
    env --default-signal=INT,HUP "$zerolock" train model fifo -l 64 -q -o reading >out 2>err &
    pid=$!
    exec 9>fifo # opens when the program has opened it too
    kill -"$signal" "$pid"
    ends "$pid" 10
    exec 9>&-
    [ "$status" = 1 ] || fail "SIG$signal while reading: status $status, expected 1"
    one_sentence
    says err 'stopped by a signal'
    [ ! -d reading/adapter ] || fail "SIG$signal while reading left an adapter"

    # while it trains: the micro-batch, the adapter, and nothing left in shared memory
    rm -rf stopped
    begin_run stopped model
    kill -STOP "$pid" && kill -CONT "$pid"
    kill -"$signal" "$pid"
    ends "$pid" 10
    [ "$status" = 1 ] || fail "SIG$signal while training: status $status, expected 1"
    cp long.err err
    says err 'stopped by a signal after step'
    run 0 eval model held-out.jsonl -l 64 -q --adapter stopped
    ! compgen -G "/dev/shm/zerolock-$pid-*" >/dev/null || fail "SIG$signal left a segment in /dev/shm"
done

# the weights are cut short under a run: it ends with the file's name
cp -r model cut
begin_run shortened cut
truncate -s 4096 cut/model.safetensors
ends "$pid" 10
[ "$status" = 1 ] || fail "weights cut short: status $status, expected 1"
cp long.err err
one_sentence
says err 'cut/model.safetensors'
! compgen -G "/dev/shm/zerolock-$pid-*" >/dev/null || fail 'weights cut short: a segment is left in /dev/shm'

# a second signal does not wait
begin_run twice model
kill -TERM "$pid"
kill -INT "$pid" 2>/dev/null
ends "$pid" 10
[ "$status" = 1 ] || [ "$status" = 130 ] || [ "$status" = 143 ] || fail "two signals: status $status"
! compgen -G "/dev/shm/zerolock-$pid-*" >/dev/null || fail 'two signals: a segment is left in /dev/shm'

# two runs in one folder; and a folder that goes away says what is lost
begin_run shared model
run 1 "${train[@]}" -o shared --force
says err 'another run is at work'
rm -r shared
kill -TERM "$pid"
ends "$pid" 10
[ "$status" = 1 ] || fail "the folder went away: status $status, expected 1"
cp long.err err
says err 'the adapter of the steps done could not be written'
finish
