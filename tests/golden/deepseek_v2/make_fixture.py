#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files beside it: a small DeepseekV2ForCausalLM, its logits, loss and gradients.

transformers 5.24.0 and torch 2.13.0+cpu, fp32, eager attention, one thread. Rows of whole sequences in io.safetensors,
one row of two documents in io_packed.safetensors, computed each document by itself. Labels are shifted; -100 does not
count. grad_stats.json holds norm, sum and product with the weight of every tensor's gradient, null where none arrives.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

EXPERTS, WIDTH = 12, 10


def make_model():
    config = DeepseekV2Config(
        vocab_size=128, hidden_size=24, intermediate_size=36, num_hidden_layers=3, num_attention_heads=3,
        first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6,
        v_head_dim=8, n_routed_experts=EXPERTS, n_shared_experts=2, moe_intermediate_size=WIDTH, num_experts_per_tok=3,
        topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=4.0, attention_bias=True,
        max_position_embeddings=256, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.707,
                         "original_max_position_embeddings": 32})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = DeepseekV2ForCausalLM(config).float().eval()
    generator = torch.Generator().manual_seed(20)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("norm.weight"):
                tensor.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                tensor.copy_(0.3 * noise)
            elif name.endswith("mlp.gate.weight"):
                tensor.copy_(0.2 * noise)  # scores near one another: the best group by one score is not that by two
            elif name.endswith("embed_tokens.weight"):
                tensor.copy_(noise)
            else:
                tensor.copy_(noise * 1.2 / tensor.shape[-1] ** 0.5)
    return model


def on_disk(name, tensor):
    """A tensor of the model in memory, as the tensors of the file."""
    stem = name.rsplit(".", 1)[0]
    if name.endswith("experts.gate_up_proj"):
        for e in range(EXPERTS):
            yield f"{stem}.{e}.gate_proj.weight", tensor[e, :WIDTH]
            yield f"{stem}.{e}.up_proj.weight", tensor[e, WIDTH:]
    elif name.endswith("experts.down_proj"):
        for e in range(EXPERTS):
            yield f"{stem}.{e}.down_proj.weight", tensor[e]
    else:
        yield name, tensor


def forward(model, ids, record):
    """Logits of whole rows; what layers and routers make goes into `record`, joined along time."""
    def keep(name, value):
        record[name] = value if name not in record else torch.cat([record[name], value], dim=-2)

    hooks = []
    for i, layer in enumerate(model.model.layers):
        def layer_hook(module, inputs, output, i=i):
            keep(f"layer_out.{i}", output[0] if isinstance(output, tuple) else output)
        hooks.append(layer.register_forward_hook(layer_hook))
        if not hasattr(layer.mlp, "gate"):
            continue

        def gate_hook(module, inputs, output, i=i):
            _, weights, choices = output
            choices, order = choices.sort(dim=-1)
            keep(f"moe.model.layers.{i}.mlp.experts.topk_idx", choices.int())
            keep(f"moe.model.layers.{i}.mlp.experts.topk_w", weights.gather(-1, order))
        hooks.append(layer.mlp.gate.register_forward_hook(gate_hook))
    logits = model(input_ids=ids, use_cache=False).logits
    for hook in hooks:
        hook.remove()
    return logits


def write(folder, model, disk, documents, suffix):
    """`documents`: token ids [rows, length] each; more than one are the documents of one row."""
    record, logits, labels, positions, segments = {}, [], [], [], []
    for number, ids in enumerate(documents):
        logits.append(forward(model, ids, record))
        labels.append(torch.cat([ids[:, 1:], torch.full((ids.shape[0], 1), -100)], dim=1))
        positions.append(torch.arange(ids.shape[1]).expand_as(ids))
        segments.append(torch.full_like(ids, number))
    logits, labels = torch.cat(logits, 1), torch.cat(labels, 1)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    model.zero_grad(set_to_none=True)
    loss.backward()
    io = {"input_ids": torch.cat(documents, 1), "labels": labels, "logits": logits, "loss": loss, **record}
    if len(documents) > 1:
        io |= {"position_ids": torch.cat(positions, 1), "segment_ids": torch.cat(segments, 1)}
    stats = {}
    for name, parameter in model.named_parameters():
        for own, gradient in on_disk(name, parameter.grad):
            own_weight = disk[own].double()
            gradient = gradient.double()
            is_reached = bool(gradient.any())
            stats[own] = [gradient.norm().item(), gradient.sum().item(),
                          (gradient * own_weight).sum().item()] if is_reached else None
    assert stats.keys() == disk.keys()
    for name in ("self_attn.q_proj.weight", "self_attn.kv_a_proj_with_mqa.weight", "self_attn.kv_a_proj_with_mqa.bias",
                 "self_attn.kv_b_proj.weight", "mlp.gate.weight"):
        io["grad.model.layers.2." + name] = model.get_parameter("model.layers.2." + name).grad
    save_file({name: value.detach().contiguous() for name, value in io.items()}, folder / f"io{suffix}.safetensors")
    (folder / f"grad_stats{suffix}.json").write_text(json.dumps(stats, indent=1) + "\n")
    print(suffix or "rows", "loss", loss.item(), "logits std", logits.std().item())


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    model = make_model()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    disk = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(21)
    draw = lambda rows, length: torch.randint(0, 128, (rows, length), generator=generator)
    write(folder, model, disk, [draw(2, 40)], "")
    write(folder, model, disk, [draw(1, 17), draw(1, 23)], "_packed")


main()
