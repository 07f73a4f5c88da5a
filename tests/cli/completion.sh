#!/usr/bin/env bash
# The completion for bash offers the commands, every option of a command, and the values of those that have a fixed set.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
# shellcheck source=/dev/null
. "$ZL_SRCDIR/etc/bash-completion/zerolock"

# complete_line WORD...: what is offered for the last word
complete_line() {
    COMP_WORDS=("$zerolock" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _zerolock
    printf '%s\n' "${COMPREPLY[@]+"${COMPREPLY[@]}"}" | sort | tr '\n' ' '
}

expect() {
    local expected=$1 got
    shift
    got=$(complete_line "$@")
    [ "$got" = "$expected " ] || fail "zerolock $*: offered '$got', expected '$expected'"
}

touch file-a file-b
expect 'train' tr
expect '--help --version bench checkpoint compare eval generate help inspect plan simulate train' ''
expect 'inspect' help i
expect '--lr --lr-schedule' train --lr
expect '1f1b async bp gpipe pipedream sweep zerolock' train --schedule ''
expect '1f1b async bp gpipe pipedream sweep zerolock' train -s ''
expect 'bp' train --schedule = b
expect 'lens ridge shadow' train m --readout ''
expect 'file-a file-b' train --eval-data file
expect 'file-a file-b' train file
expect '' train --steps ''
for command in train eval generate inspect bench simulate compare; do
    offered=$(complete_line "$command" --)
    for name in $("$zerolock" "$command" --help-options | cut -f 1); do
        case " $offered" in *" --$name "*) ;; *) fail "$command: --$name is not offered" ;; esac
    done
done
for name in $("$zerolock" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    case " $(complete_line "")" in *" $name "*) ;; *) fail "the command $name is not offered" ;; esac
done
finish
