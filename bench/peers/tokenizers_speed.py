#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of the Python packages tokenizers, sentencepiece and tiktoken on the texts and files of bench/tokenizer.cpp.

Run in the root of the checkout: python3 bench/peers/tokenizers_speed.py > bench/results/peer_tokenizers.json
"""
import base64
import glob
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread

import pyarrow.parquet
import sentencepiece
import tiktoken
import tokenizers

GOLDEN = "tests/golden/tokenizer/"


def json_encoder(path):
    tokenizer = tokenizers.Tokenizer.from_file(path)
    return lambda texts: sum(len(e.ids) for e in tokenizer.encode_batch_fast(texts))


def model_encoder(path):
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return lambda texts: sum(len(ids) for ids in processor.encode(texts, num_threads=1))


def rank_encoder(folder):
    with open(folder + "/special_tokens.json", encoding="utf-8") as file:
        special = json.load(file)
    with open(folder + "/tokenizer.model", encoding="ascii") as file:
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in file if line.strip())}
    encoding = tiktoken.Encoding("ranks", pat_str=special["pat_str"], mergeable_ranks=ranks,
                                 special_tokens=special["special_tokens"])
    return lambda texts: sum(len(encoding.encode(t, allowed_special="all")) for t in texts)


def main():
    texts = []
    for path in sorted(glob.glob("examples/data/kjv/train*.parquet")):
        texts += pyarrow.parquet.read_table(path, columns=["text"])["text"].to_pylist()
    size = sum(len(t.encode()) for t in texts) / 1e6
    encoders = {
        "byte_level_bpe": json_encoder("examples/data/kjv/tokenizer.json"),
        "sentencepiece_bpe": json_encoder(GOLDEN + "spm_bpe_llama2/tokenizer.json"),
        "unigram": json_encoder(GOLDEN + "unigram_json/tokenizer.json"),
        "sentencepiece_bpe_model": model_encoder(GOLDEN + "spm_bpe_llama2/tokenizer.model"),
        "unigram_model": model_encoder(GOLDEN + "unigram/unigram.model"),
        "tiktoken": rank_encoder(GOLDEN + "tiktoken_llama3"),
    }
    report = {"command": " ".join([os.path.basename(sys.argv[0])] + sys.argv[1:]),
              "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "versions": {m.__name__: m.__version__ for m in (tokenizers, sentencepiece, tiktoken)},
              "threads": 1, "load_average": round(os.getloadavg()[0], 2), "megabytes": round(size, 3)}
    for name, encode in encoders.items():
        best = best_cpu = float("inf")
        for _ in range(3):
            start, cpu = time.perf_counter(), time.process_time()
            tokens = encode(texts)
            best = min(best, time.perf_counter() - start)
            best_cpu = min(best_cpu, time.process_time() - cpu)
        report[name] = {"mb_per_second": round(size / best, 2), "mb_per_cpu_second": round(size / best_cpu, 2),
                        "tokens": tokens}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
