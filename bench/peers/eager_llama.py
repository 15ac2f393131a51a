# SPDX-License-Identifier: Apache-2.0
"""The model of bench/dense_step.cpp in eager PyTorch: transformers' Llama, SDPA, clipping, fused AdamW.

Needs torch and transformers in any Python environment; Ballast itself needs neither.
usage: eager_llama.py [float32|bfloat16] [threads] > bench/results/peer_eager_llama.json
"""
import json
import sys
import time

import torch
import transformers

dtype = getattr(torch, sys.argv[1] if len(sys.argv) > 1 else "float32")
torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
torch.manual_seed(0)
rows, length, vocab = 4, 512, 32000
config = transformers.LlamaConfig(
    hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=8, intermediate_size=2048,
    vocab_size=vocab, max_position_embeddings=length, attn_implementation="sdpa", use_cache=False)
model = transformers.LlamaForCausalLM(config).to(dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
ids = torch.randint(vocab, (rows, length))


def step():
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


step()
best, best_cpu = 1e30, 1e30
for _ in range(5):
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    best, best_cpu = min(best, time.perf_counter() - wall), min(best_cpu, time.process_time() - cpu)
machine = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
print(json.dumps({
    "command": " ".join(["eager_llama.py"] + sys.argv[1:]), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    "machine": machine, "threads": torch.get_num_threads(), "load_average": float(open("/proc/loadavg").read().split()[0]),
    "torch": torch.__version__, "transformers": transformers.__version__,
    "parameters": sum(p.numel() for p in model.parameters()), "seconds_per_step": round(best, 4),
    "cpu_seconds_per_step": round(best_cpu, 4), "tokens_per_second": round(rows * length / best, 1)}, indent=1))
