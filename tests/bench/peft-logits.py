#!/usr/bin/env python3
"""Does an adapter trained by zerolock give the same logits in Hugging Face PEFT? Compares the logits behind the last token of
the first examples, computed by tests/bench/dump-logits and by PyTorch in float32, and prints the largest difference.

    python3 -m venv v && v/bin/pip install torch transformers peft gguf
    v/bin/python tests/bench/peft-logits.py build/tests/bench/dump-logits MODEL ADAPTER DATA.jsonl [COUNT]

MODEL is a GGUF file or a Hugging Face directory, ADAPTER a folder that zerolock train wrote (RUN/adapter). Exit status 0
when the relative RMS difference of every example is at most 1e-4. Not part of make check."""
import os, struct, subprocess, sys
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

dump, path, adapter, data = sys.argv[1:5]
count = sys.argv[5] if len(sys.argv) > 5 else "4"
raw = subprocess.run([dump, path, adapter, data, count], check=True, capture_output=True).stdout
where, how = (os.path.dirname(path) or ".", {"gguf_file": os.path.basename(path)}) if path.endswith(".gguf") else (path, {})
model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, **how)
model = PeftModel.from_pretrained(model, adapter).eval()
at, worst, n_examples = 0, 0.0, 0
while at < len(raw):
    (n,) = struct.unpack_from("i", raw, at)
    ids = struct.unpack_from(f"{n}i", raw, at + 4)
    (vocab,) = struct.unpack_from("i", raw, at + 4 + 4 * n)
    at += 8 + 4 * n
    ours = torch.frombuffer(bytearray(raw[at : at + 4 * vocab]), dtype=torch.float32).double()
    at += 4 * vocab
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double()
    rms = ((ours - theirs).norm() / theirs.norm()).item()
    print(f"{n} tokens: max difference {(ours - theirs).abs().max().item():.3g}, relative RMS {rms:.3g}")
    worst = max(worst, rms)
    n_examples += 1
print(f"{n_examples} examples, worst relative RMS {worst:.3g} (bound 1e-4)")
sys.exit(0 if n_examples and worst <= 1e-4 else 1)
