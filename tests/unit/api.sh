#!/usr/bin/env bash
# The library from outside: it exports what its header declares and nothing else, and the example of zerolock(3) runs.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"

declared=$(sed -n 's/^ZEROLOCK_API .*[ *]\(zerolock_[a-z_]*\)(.*/\1/p' "$ZL_SRCDIR/include/zerolock.h" | sort)
[ "$(echo "$declared" | wc -l)" -ge 9 ] || fail "the header declares only: $declared"
shared=$ZL_BUILDDIR/.libs/libzerolock.so
if [ -e "$shared" ] && command -v nm >/dev/null; then
    # sanitizers add symbols of their own, which begin with two underscores
    exported=$(nm -D --defined-only "$shared" | awk '$3 !~ /^__/ { print $3 }' | sort)
    diff <(echo "$declared") <(echo "$exported") >difference || fail "declared (<) and exported (>) differ: $(grep '^[<>]' difference | tr '\n' ' ')"
else
    echo 'no shared library or no nm: the exported symbols were not looked at'
fi

# prints the losses before and after, which fall, and an answer; and says nothing else
make_tiny 4 80
"$ZL_BUILDDIR/tests/unit/api-example" model train.jsonl held-out.jsonl run >out 2>err || fail "the example ends with $?"
silent err
awk '/^held-out loss / { before = $3; after = $5 } END { exit !(before > 0 && after > 0 && after < before) }' out ||
    fail "the losses do not fall: $(grep '^held-out' out)"
[ -s run/adapter/adapter_model.safetensors ] || fail 'no adapter was written'
"$ZL_BUILDDIR/tests/unit/api-example" nowhere train.jsonl held-out.jsonl run2 >out 2>err && fail 'a missing model goes unnoticed'
says err nowhere

if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$ZL_SRCDIR/man/zerolock.3" >lint || fail "$(cat lint)"
fi
finish
