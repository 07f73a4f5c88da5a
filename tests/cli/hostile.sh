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
[ -z "$(ls limited | grep -v -e '^lock$' -e '^metrics.jsonl$' -e '^config.yaml$' -e '^run.json$')" ] || fail "left over: $(ls limited)"
finish
