#!/usr/bin/env bash
# inspect: what it shows of models, adapters and data, and that broken files end in one sentence.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 3 20

run 0 inspect model
silent err
says out 'llama: 3 layers, hidden 32, MLP 48'
says out '4 heads of 8, 2 for keys and values'
says out '260 rows, head tied to the embedding'
says out '260 tokens, BOS 256 <s>, EOS 257 </s>, adds no BOS'
says out 'in 29 tensors'
run 0 inspect model --tensors
says out 'model.layers.2.mlp.down_proj.weight'
says out '[32, 48]'
run 0 inspect model/model.safetensors
says out 'safetensors (one file)'
run 0 inspect model --json
[ "$(wc -l <out)" -eq 1 ] || fail '--json is not one line'
says out '"kind":"model"'
says out '"layers":3'
says out '"problems":[]'

# a model that cannot be trained is shown, and the status says so
cp -r model other
sed -i 's/"llama"/"mamba"/' other/config.json
run 1 inspect other
says out 'in 29 tensors'
one_sentence
says err mamba
run 1 inspect other --json
says out '"problems":["'

# a model without one of its tensors
cp -r model torn
sed -i 's/model\.layers\.1\.mlp\.up_proj/model.layers.1.mlp.no_proj/' torn/model.safetensors
run 1 inspect torn
one_sentence
says err 'model.layers.1.mlp.up_proj.weight'

# files that are none
head -c 1000 model/model.safetensors >short.safetensors
printf 'GGUF\003\000\000\000' >short.gguf
: >empty
mkdir nothing
for file in short.safetensors short.gguf empty nothing nowhere; do
    run 1 inspect "$file"
    silent out
    one_sentence
    says err "$file"
done
run 1 inspect train.jsonl
silent out
one_sentence
says err "train.jsonl: neither a GGUF nor a safetensors file"
says err 'inspect data'

# data: the report, and the trained tokens in brackets
run 0 inspect data train.jsonl --tokenizer model -n 1
silent err
says out 'data: 20 of 20 rows kept'
says out 'example 0: train.jsonl line 1'
grep -q '⟦.*⟧' out || fail 'no trained tokens are marked'
[ "$(grep -c '^example' out)" -eq 1 ] || fail 'not one example'
run 0 inspect data train.jsonl held-out.jsonl --tokenizer model -n 0
says out 'from 2 files'
run 0 inspect data train.jsonl --tokenizer model -n 2 --json
says out '"rows":20'
says out '"trained":['
printf '{"prompt": "a", "completion": ""}\n' >hollow.jsonl
run 1 inspect data hollow.jsonl --tokenizer model
silent out
one_sentence
printf '{"prompt": "a", "completion": "b"}\n{"prompt": 3}\n' >bad.jsonl
run 1 inspect data bad.jsonl --tokenizer model
one_sentence
says err 'bad.jsonl'
grep -q 'line 2\|:2' err || fail 'the line is not named'

# an option that has no effect on the kind of thing is said
run 0 inspect model --examples 2
says err '--examples has an effect only on data'
run 0 inspect data train.jsonl --tokenizer model --tensors
says err '--tensors has no effect on data'

# reference adapters, where they are
golden=$ZL_SHARED/golden/models/llama
if [ -d "$golden" ]; then
    run 0 inspect "$golden/adapter" --tensors
    says out '22.4 k (22400)'
    says out 'q_proj'
    run 0 inspect "$golden/adapter" --json
    says out '"ranks":[4],"scales":[2.0]'
    mkdir run
    cp -r "$golden/adapter" run/adapter
    run 0 inspect run
    says out 'run/adapter'
    rm run/adapter/adapter_model.safetensors
    run 1 inspect run
    one_sentence
else
    echo "$golden is not here: reference adapters were not inspected"
fi
finish
