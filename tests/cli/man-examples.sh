#!/usr/bin/env bash
# The examples of the man pages, run in order on a tiny model that has the names they use.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 21 12
one_core
mv model model.gguf # a folder; what it is is found out from the content
mv train.jsonl requests.jsonl
head -n 3 held-out.jsonl >few && mv few held-out.jsonl
cat >model.gguf/chat_template.jinja <<'END'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
END
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 4096/' model.gguf/config.json
printf 'Count 2 from 3:\n' >prompt.txt
mkdir bin
ln -s "$zerolock" bin/zerolock
PATH=$work/bin:$PATH

# block N of the EXAMPLES of a page as a shell script; empty past the last
block() {
    awk -v wanted="$2" '/^\.Sh / { on = /EXAMPLES/ } !on { next }
        /^\.Bd/ { n++; inside = 1; next } /^\.Ed/ { inside = 0 } inside && n == wanted' "$1" |
        sed 's/\\e$/\\/; s/^\\&//'
}

total=0
pages='zerolock zerolock-train zerolock-eval zerolock-generate zerolock-inspect zerolock-bench zerolock-simulate zerolock-compare
    zerolock-checkpoint'
for page in $pages; do
    if [ $page = zerolock-checkpoint ]; then # of a run that wrote three
        rm -rf run && mkdir run && "$ZL_BUILDDIR/tests/fault/write-checkpoints" -k 3 run 20 40 60 >said || fail "$(cat said)"
    fi
    for ((n = 1; ; n++)); do
        block "$ZL_SRCDIR/man/$page.1" $n >example.sh
        [ -s example.sh ] || break
        total=$((total + 1))
        if grep -q 'jq' example.sh && ! command -v jq >/dev/null; then
            echo "skipped: example $n of $page(1) needs jq"
            continue
        fi
        if grep -q -- '--config' example.sh && ! has_config; then
            continue
        fi
        grep -o -- '-o [a-z0-9-]*' example.sh | cut -d ' ' -f 2 | xargs rm -rf # an example may write where an earlier one did
        sh -e example.sh >out 2>err </dev/null || fail "example $n of $page(1): $(cat example.sh)"
        [ -s out ] || [ -s err ] || fail "example $n of $page(1) says nothing"
    done
done
[ "$total" -ge 15 ] || fail "only $total examples were found"
finish
