#!/usr/bin/env bash
# Usage: what each wrong call says, on which stream, and with which status.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
commands='train eval generate inspect'

# no command, an unknown one, an unknown option in its place
run 2
silent out
says err 'a command is missing'
says err 'Usage: zerolock COMMAND'
run 2 trian
one_sentence
says err "unknown command 'trian' (did you mean 'train'?)"
says err "try 'zerolock --help'"
run 2 --frobnicate
one_sentence

# help and version are results: on stdout, status 0, nothing else said
for arguments in --help -h help 'help help' --version -V; do
    # shellcheck disable=SC2086
    run 0 $arguments
    silent err
    [ -s out ] || fail "$arguments prints nothing"
done
says out "zerolock $(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$ZL_BUILDDIR/config.h")"
run 2 help nonsense
for command in $commands; do
    run 0 help "$command"
    cp out by-help
    run 0 "$command" --help
    silent err
    cmp -s out by-help || fail "help $command and $command --help differ"
done

# each command without its arguments
for command in $commands; do
    run 2 "$command"
    silent out
    one_sentence
    says err 'is missing'
    says err "try 'zerolock $command --help'"
done

# options: unknown, nearly right, without value, with a surplus value, out of range
run 2 train m d -o r --learning-rate 1
one_sentence
says err "(did you mean '--lr'?)"
run 2 train m d -o r --step 1
says err "unknown option '--step' (did you mean '--steps'?)"
run 2 train m d -o
says err 'needs a value'
run 2 train m d -o r --force=1
says err 'takes no value'
run 2 train m d -o r --lr 3,5
says err "'3,5' is not a number"
run 2 train m d -o r --lr nan
run 2 train m d -o r --stages 0
run 2 train m d -o r --steps 1 --epochs 1
run 2 train m d -o r --schedule pipe
says err 'bp, zerolock, gpipe'
run 2 generate m p q
says err "'q' is one argument too many"
run 2 eval m d --limit 0
run 2 inspect data x.jsonl
says err '--tokenizer'

# a file that is not there is a failure, not a usage error, and leaves no output
for arguments in 'inspect nowhere' 'inspect data nowhere --tokenizer nowhere' 'eval nowhere nowhere' 'generate nowhere hello' \
    'train nowhere nowhere -o run'; do
    # shellcheck disable=SC2086
    run 1 $arguments
    silent out
    says err nowhere
    grep -q "^try 'zerolock" err && fail "$arguments: a hint to --help helps nobody here"
done

# an option that changes nothing in this run is said
run 1 train nowhere nowhere -o run --schedule bp --look-ahead 4 --force
says err 'zerolock: --look-ahead has no effect with --schedule bp'
run 1 generate nowhere hello --seed 3
says err 'zerolock: --seed has no effect with --temperature 0'
run 1 train nowhere nowhere -o run --schedule bp --look-ahead 4 --force --quiet
grep -q 'no effect' err && fail '--quiet lets notes through'

# a result that does not reach a full disk is a failure
if [ -c /dev/full ]; then
    "$zerolock" --help >/dev/full 2>err && fail 'a full disk goes unnoticed'
    says err 'cannot write to standard output'
fi
finish
