# SPDX-License-Identifier: Apache-2.0
"""The layer of bench/moe_layer.cpp in eager PyTorch: for each expert the tokens that chose it, index_select, three
products, index_add_, as common model code has it.

Needs torch in any Python environment; Ballast itself needs none.
usage: eager_moe.py [threads] > bench/results/peer_eager_moe.json
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.manual_seed(0)
tokens, width, experts, chosen, expert_width = 2048, 512, 64, 8, 256


def matrices(out_width, in_width):
    return [torch.nn.Parameter(torch.randn(out_width, in_width) * in_width**-0.5) for _ in range(experts)]


gates, ups, downs = matrices(expert_width, width), matrices(expert_width, width), matrices(width, expert_width)
x = torch.randn(tokens, width, requires_grad=True)
weight = torch.rand(tokens, chosen, requires_grad=True)
d_y = torch.randn(tokens, width)
leaves = [x, weight] + gates + ups + downs


def layer(choice):
    y = torch.zeros_like(x)
    with torch.no_grad():
        mask = F.one_hot(choice, experts).permute(2, 1, 0)
    for expert in range(experts):
        slot, token = torch.where(mask[expert])
        rows = x.index_select(0, token)
        inner = F.silu(F.linear(rows, gates[expert])) * F.linear(rows, ups[expert])
        y.index_add_(0, token, F.linear(inner, downs[expert]) * weight[token, slot, None])
    return y


def measure(is_skewed, rounds=15):
    rank = torch.arange(1, experts + 1, dtype=torch.float32)
    share = rank.reciprocal() if is_skewed else torch.ones_like(rank)
    choice = torch.multinomial(share.expand(tokens, experts), chosen, generator=torch.Generator().manual_seed(1))
    walls, cpus = [], []
    for _ in range(rounds + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        torch.autograd.grad(layer(choice), leaves, d_y)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"seconds": round(min(walls[1:]), 4), "median_seconds": round(sorted(walls[1:])[rounds // 2], 4),
            "cpu_seconds": round(min(cpus[1:]), 4)}


machine = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
print(json.dumps({
    "command": " ".join(["eager_moe.py"] + sys.argv[1:]), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    "machine": machine, "threads": torch.get_num_threads(), "load_average": float(open("/proc/loadavg").read().split()[0]),
    "torch": torch.__version__, "even": measure(False), "skewed": measure(True)}, indent=1))
