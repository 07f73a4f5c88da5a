# Shared by the tests of the command line: sourced, not run. Each test works in a folder of its own that goes with it.
# shellcheck shell=bash
set -u
zerolock=$ZL_BUILDDIR/zerolock
work=$(mktemp -d "${TMPDIR:-/tmp}/zerolock-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
unset COLUMNS
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    [ ! -s "$work/err" ] || sed 's/^/    stderr: /' "$work/err"
}

# Skipping is said, and counted by the test driver.
skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

# run STATUS ARGUMENT...: zerolock with these arguments ends with that status; its output is in ./out and ./err.
run() {
    local expected=$1 status=0
    shift
    "$zerolock" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ "$status" -eq "$expected" ] || fail "zerolock $*: status $status, expected $expected"
}

says() { grep -qF -- "$2" "$work/$1" || fail "std$1 lacks: $2"; }
silent() { [ ! -s "$work/$1" ] || fail "std$1 is not empty"; }

# one_sentence: all that was said is one line that begins with the program's name, and a hint after a usage error.
one_sentence() {
    [ "$(grep -vc "^try 'zerolock" "$work/err")" -eq 1 ] || fail "not one sentence on stderr"
    grep -q '^zerolock: [^ ]' "$work/err" || fail "the sentence does not begin with the program's name"
}

# A tiny model in ./model and rows in ./train.jsonl and ./held-out.jsonl.
make_tiny() {
    local made
    [ -x "$ZL_BUILDDIR/tests/cli/make-tiny" ] || skip "make-tiny is not built (it needs cmocka)"
    made=$("$ZL_BUILDDIR/tests/cli/make-tiny" "$@" | tail -n 1) || skip "the tiny model could not be made"
    mv "$made"/* "$work" && rmdir "$made"
}

# Configuration files need libyaml.
has_config() { grep -q '^#define HAVE_YAML 1' "$ZL_BUILDDIR/config.h" || { echo 'built without libyaml: --config is not tested' && false; }; }

# Stay on one of our cores: tiny models spend their time waiting at barriers on a machine that is busy otherwise.
one_core() {
    command -v taskset >/dev/null && taskset -cp "$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')" $$ >/dev/null
}

finish() {
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
