#!/usr/bin/env bash
# zerolock checkpoint: what it lists, what it proves, and going back.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
writer=$ZL_BUILDDIR/tests/fault/write-checkpoints
[ -x "$writer" ] || skip "write-checkpoints is not built (it needs cmocka)"
file=run/checkpoints/000000000
flip() { printf '\252' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# nothing there
run 1 checkpoint list nowhere
one_sentence
mkdir run
run 0 checkpoint list run
silent out
says err 'run has no checkpoints'
run 1 checkpoint verify run
one_sentence
run 1 checkpoint restore run
says err 'run has no checkpoint that can be used'
run 2 checkpoint show run
one_sentence
run 2 checkpoint list
run 0 checkpoint list run -g 3
says err '--generation has an effect only on restore'

# three, of which the newest is current
"$writer" -k 3 run 20 40 60 >said || fail "$(cat said)"
run 0 checkpoint list run
silent err
states() { awk 'NR > 1 { print $1, $2, $6, $7 }' out | tr '\n' ';'; }
[ "$(states)" = '3 60 complete, current;2 40 complete ;1 20 complete ;' ] || fail "$(cat out)"
run 0 checkpoint verify run
silent err
[ "$(states)" = '3 60 sound, current;2 40 sound ;1 20 sound ;' ] || fail "$(cat out)"
run 0 checkpoint verify run --json
[ "$(wc -l <out)" -eq 1 ] || fail 'not one line of JSON'
for text in '"current":3' '"step":40' '"state":"sound"' '"run":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"' '"file":"0000000002-step-40.zlc"'; do
    tr -d ' ' <out | grep -qF "$text" || fail "the JSON lacks $text"
done

# damage inside is found by reading, damage of the frame by looking
flip ${file}3-step-60.zlc 100000
run 0 checkpoint list run
says out ' complete, current'
run 1 checkpoint verify run
one_sentence
says err '1 checkpoint of run cannot be used; the newest that can is generation 2 of step 40'
says out 'damaged: run/checkpoints/0000000003-step-60.zlc is damaged in the 65536 bytes from 69632 on, block 1 of section 1 of stage 0'
flip ${file}2-step-40.zlc 90
run 0 checkpoint list run
says out 'damaged: run/checkpoints/0000000002-step-40.zlc is damaged in its head, index or foot'
: >${file}2-step-40.zlc
run 0 checkpoint list run
says out 'has 0 bytes'

# the newest sound one becomes current; the damaged ones are kept aside
run 0 checkpoint restore run
says err 'generation 1 is the newest of run now, 2 newer ones were set aside'
ls run/checkpoints >names
printf '%s\n' 0000000001-step-20.zlc 0000000002-step-40.zlc.aside 0000000003-step-60.zlc.aside | diff - names || fail 'other names'
run 0 checkpoint verify run
says out 'sound, current'
says out 'damaged, set aside'
# a number is never used again
"$writer" -k 9 run 40 50 60 >said || fail "$(cat said)"
[ -e ${file}4-step-40.zlc ] || fail 'the fourth is not generation 4'

# back by number, and forth again
run 0 checkpoint restore run -g 4 --json
tr -d ' ' <out | grep -qF '"set_aside":2' || fail "$(cat out)"
run 0 checkpoint list run
[ "$(grep current out | awk '{ print $1 }')" = 4 ] || fail 'not 4 is current'
run 0 checkpoint restore run -g 6
says err '0 newer ones were set aside'
run 0 checkpoint list run
[ "$(grep current out | awk '{ print $1 }')" = 6 ] || fail 'not 6 is current'
run 1 checkpoint restore run -g 3
says err 'is damaged'
run 2 checkpoint restore run -g 77
says err 'run has no generation 77'
[ -e ${file}6-step-60.zlc ] || fail 'a refused restore changed something'

# another format is not damage, and says what to do
cp ${file}6-step-60.zlc keep
"$ZL_BUILDDIR/tests/fault/other-format" ${file}6-step-60.zlc
run 0 checkpoint list run
says out 'of another format: run/checkpoints/0000000006-step-60.zlc is in version 2 of the format, written by zerolock 9.9.9'
says out 'continue the run with the zerolock that wrote it or a newer one'
run 2 checkpoint restore run
says err 'is in version 2 of the format'
cp keep ${file}6-step-60.zlc

# names that lie, and things that are no files
mv ${file}6-step-60.zlc ${file}7-step-70.zlc
run 1 checkpoint verify run
says out 'holds generation 6 of step 60: it was renamed'
mv ${file}7-step-70.zlc ${file}6-step-60.zlc
ln -s "$PWD/keep" ${file}7-step-70.zlc
mkfifo ${file}8-step-80.zlc
mkdir ${file}9-step-90.zlc
run 1 checkpoint verify run
says out 'is a symbolic link, expected a file'
says out '0000000008-step-80.zlc is not a plain file'
says out '0000000009-step-90.zlc is not a plain file'
says err '3 checkpoints of run cannot be used'
rm -r ${file}[789]*

# a run that is at work is left alone
exec 9>run/lock
flock 9
run 1 checkpoint restore run
says err 'another run is at work in this folder'
run 0 checkpoint verify run
exec 9>&-
finish
