# SPDX-License-Identifier: Apache-2.0
"""Does transformers read what `ballast convert` writes, and compute the same?

transformers_check.py BALLAST GOLDEN_FOLDER BASE_YML. Exit code 0: yes, 1: no, 77: skipped, with the reason.

Each model goes to a checkpoint and back. The weights must come back bit-equal, the fields of config.json must be equal
for transformers, and its logits must be those of the original to the bit and those of `ballast probe` within 1e-5 of
the largest one.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BALLAST, GOLDEN, BASE_YML = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
TOLERANCE = 1e-5
# Not architecture: token ids come from the tokenizer, the element type from --dtype, the weight of the balance loss from
# the run, the rest from the library.
UNCOMPARED = {"bos_token_id", "eos_token_id", "pad_token_id", "dtype", "transformers_version", "_name_or_path",
              "architectures", "max_window_layers", "head_dim", "pretraining_tp", "router_aux_loss_coef"}


def ballast(*words):
    result = subprocess.run([BALLAST, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0, result.stderr


def weights(folder):
    tensors = {}
    for file in folder.glob("model*.safetensors"):
        tensors.update(load_file(file))
    return tensors


def logits(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")
    with torch.no_grad():
        return model.eval()(ids).logits, model.config.to_dict()


def check_logits(name, folder, ids, tmp):
    save_file({"input_ids": ids}, tmp / "ids.safetensors")
    ballast("probe", folder, "--tokens", tmp / "ids.safetensors", "--out", tmp / "out.safetensors")
    ours = load_file(tmp / "out.safetensors")["logits"]
    theirs, config = logits(folder, ids)
    gap = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{name}: logits differ by {gap:.1e} of the largest")
    assert gap <= TOLERANCE, name
    return theirs, config


def agrees(field, original):
    """Equal; an object may also say what the original left to a default, and a quotient as one number."""
    if not isinstance(original, dict) or not isinstance(field, dict):
        return field == original
    said_otherwise = {"mscale"} if "attention_factor" in field else set()
    return all(agrees(field.get(key), original[key]) for key in original.keys() - said_otherwise)


def check_round_trip(name, source, tmp, dtype="float32", shard="5GB"):
    ids = torch.randint(0, 128, (2, 40), generator=torch.Generator().manual_seed(1))
    back = tmp / f"{name}-back"
    ballast("convert", source, tmp / name)
    ballast("convert", tmp / name, back, "--dtype", dtype, "--max_shard_size", shard)
    assert (shard == "5GB") == (back / "model.safetensors").exists(), name
    before, after = weights(source), weights(back)
    assert before.keys() == after.keys(), f"{name}: {before.keys() ^ after.keys()}"
    for tensor in before:
        assert before[tensor].dtype == after[tensor].dtype, f"{name}: {tensor}"
        assert torch.equal(before[tensor].view(torch.uint8), after[tensor].view(torch.uint8)), f"{name}: {tensor}"
    theirs, config = check_logits(name, back, ids, tmp)
    original, original_config = logits(source, ids)
    assert torch.equal(theirs, original), name
    for field in original_config.keys() - UNCOMPARED:  # all that the class reads; more is for other readers
        assert agrees(config.get(field), original_config.get(field)), \
            f"{name} {field}: {config.get(field)} instead of {original_config.get(field)}"


def made_models():
    sizes = dict(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=64)
    yield "llama-tied-bias", "bfloat16", transformers.LlamaConfig(
        **sizes, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "linear", "rope_theta": 20000.0, "factor": 4.0})
    yield "mistral-window", "float16", transformers.MistralConfig(**sizes, head_dim=16, sliding_window=8)
    yield "mistral-global", "float32", transformers.MistralConfig(**sizes, sliding_window=None)
    yield "qwen3-late-window-yarn", "bfloat16", transformers.Qwen3Config(
        **sizes, head_dim=16, use_sliding_window=True, sliding_window=8, max_window_layers=2,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                         "original_max_position_embeddings": 16})


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        for family in ("llama", "llama2", "qwen3", "olmo3", "mixtral", "qwen3_moe", "olmoe", "flex_olmo", "gpt_oss",
                       "deepseek_v2", "deepseek_v3"):
            check_round_trip(family, GOLDEN / family, tmp)
        for name, dtype, config in made_models():
            torch.manual_seed(0)
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.1)  # biases and norms too
            model.save_pretrained(tmp / f"{name}-source", max_shard_size="20KB")
            check_round_trip(name, tmp / f"{name}-source", tmp, dtype, "20KB")
        ballast("train", BASE_YML, "run_name=t", f"base_output_directory={tmp}", "hardware=cpu",
                "dataset_type=synthetic", "base_emb_dim=32", "base_num_query_heads=2", "base_num_kv_heads=2",
                "head_dim=16", "base_mlp_dim=64", "base_num_decoder_layers=2", "vocab_size=128",
                "max_target_length=32", "per_device_batch_size=2", "steps=3", "dtype=float32")
        ballast("convert", tmp / "t", tmp / "trained")
        check_logits("trained here", tmp / "trained", torch.arange(32).view(1, 32), tmp)


main()
