#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sentencepiece_variants.jsonl: BPE and Unigram tokenizers on characters with drawn components, and what the
Python package tokenizers makes of texts.

Run in this folder: python3 make_sentencepiece_variants.py > sentencepiece_variants.jsonl   (tokenizers 0.23.3)
"""
import base64
import copy
import json
import random
import sys
import unicodedata

from tokenizers import Tokenizer

MARK = "\u2581"
FRAGMENTS = [
    "the", "The", " the", " of", " and", " ", "  ", "   ", "\n", "\r\n", "\t", "a", "ab", "er", "in", "ing", " th", "x",
    "123", "7", "\u0663", "\u00bd", "\u00e9", "e\u0301", "\u00c9", "\u0130", "\u00df", "\u4e2d\u6587", "\u6f22\u5b57",
    "\u30ab\u30ca", "\u03a9", "\u212b", "\ufb01", "\u200d", "\u200b", "\u00a0", "\u2028", "\u3000", "\x85", "\x0b", "_",
    "<x>", "<x>y", "<s>", "</s>", "<unk>", "<0x41>", ".", "!", "?", "\u2026", "``", "''", MARK, MARK + MARK, "(", ")",
    "\U0001f600", "\u0301", "\u093f", "\uac01", "\u1100\u1161\u11a8", "\x00", "\x01", "\x7f", "$", "\u0627\u064e",
    "\ufeff", "\ufffd", "\uff21", "\u2460", "wor", "ld", "was", " they", "ou", " m",
]
ADDED = ["<x>", "<x>y", "the", " the", "the ", "\u00e9", "\n", "\n\n", "  ", MARK, "\u4e2d\u6587", "1"]
NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Nmt"},
    {"type": "StripAccents"}, {"type": "Prepend", "prepend": MARK}, {"type": "Prepend", "prepend": "a"},
    {"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def read_field(data, wanted):
    """Values of the length-delimited fields `wanted` of a protocol buffers message."""
    place, found = 0, []

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 == 5:
            place += 4
        elif tag & 7 == 1:
            place += 8
        else:
            size = varint()
            if tag >> 3 == wanted:
                found.append(data[place:place + size])
            place += size
    return found


def charsmap():
    with open("unigram/unigram.model", "rb") as file:
        return read_field(read_field(file.read(), 3)[0], 2)[0]


def draw_metaspace(draw):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": draw.choice(["always", "first", "never"]),
            "split": draw.random() < 0.6}


def draw_pre_tokenizer(draw):
    kinds = [
        lambda: None,
        lambda: draw_metaspace(draw),
        lambda: {"type": "Whitespace"},
        lambda: {"type": "WhitespaceSplit"},
        lambda: {"type": "Punctuation", "behavior": draw.choice(BEHAVIORS)},
        lambda: {"type": "Digits", "individual_digits": draw.random() < 0.5},
        lambda: {"type": "CharDelimiterSplit", "delimiter": draw.choice("ae ")},
        lambda: {"type": "Split", "pattern": {"String": draw.choice([" ", MARK, "e"])},
                 "behavior": draw.choice(BEHAVIORS), "invert": draw.random() < 0.2},
    ]
    if draw.random() < 0.4:
        steps = [step for step in (draw.choice(kinds[2:])() for _ in range(draw.randrange(1, 3)))]
        return {"type": "Sequence", "pretokenizers": steps + [draw_metaspace(draw)]}
    return kinds[draw.choice([0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7])]()


def draw_decoder(draw):
    steps = [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": draw.randrange(3), "stop": 0},
        {"type": "Metaspace", "replacement": MARK, "prepend_scheme": draw.choice(["always", "first", "never"]),
         "split": True},
    ]
    chosen = draw.choice([[0, 1, 2, 3], [0, 1, 2], [1, 4], [4], [0], [2, 3], [1], [0, 3], [1, 2, 4], []])
    if not chosen:
        return None
    return steps[chosen[0]] if len(chosen) == 1 else {"type": "Sequence", "decoders": [steps[i] for i in chosen]}


def draw_normalizer(draw, blob):
    choices = NORMALIZERS + [{"type": "Precompiled", "precompiled_charsmap": blob}] * 3
    kind = draw.randrange(4)
    if kind == 0:
        return None
    if kind == 1:
        return draw.choice(choices)
    return {"type": "Sequence", "normalizers": draw.sample(choices, draw.randrange(1, 4))}


def draw_added(draw, vocab, size):
    tokens, next_id = [], size
    for content in draw.sample(ADDED, draw.randrange(4)):
        token_id = vocab.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        tokens.append({"id": token_id, "content": content, "single_word": draw.random() < 0.2,
                       "lstrip": draw.random() < 0.3, "rstrip": draw.random() < 0.3, "normalized": False,
                       "special": draw.random() < 0.5})
    return tokens


def draw_model(draw, base, kind):
    model = copy.deepcopy(base["model"])
    changes = {"byte_fallback": draw.random() < 0.5}
    without = ""
    if kind == "bpe":
        changes["fuse_unk"] = draw.random() < 0.5
        changes["unk_token"] = draw.choice(["<unk>", "<unk>", None])
        if draw.random() < 0.3:
            without = draw.choice(["zZ", "e", MARK, "09"])
            keep = {t: i for t, i in model["vocab"].items() if not any(c in t for c in without)}
            model["vocab"] = keep
            model["merges"] = [m for m in model["merges"] if m[0] in keep and m[1] in keep and m[0] + m[1] in keep]
    model.update(changes)
    return model, changes, without


def draw_text(draw):
    if draw.random() < 0.15:
        points = [draw.choice([draw.randrange(0x300), draw.randrange(0x30000)]) for _ in range(20)]
        return "".join(chr(c) for c in points if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs"))
    return "".join(draw.choice(FRAGMENTS) for _ in range(draw.randrange(16)))


def main():
    count, num_texts, seed = (int(v) for v in (sys.argv[1:] or (60, 10, 20250311)))
    draw = random.Random(seed)
    blob = base64.b64encode(charsmap()).decode()
    folders = {"bpe": "spm_bpe_llama2", "unigram": "unigram_json"}
    bases = {kind: json.load(open(folder + "/tokenizer.json", encoding="utf-8")) for kind, folder in folders.items()}
    for index in range(count):
        kind = ("bpe", "unigram")[index % 2]
        document = copy.deepcopy(bases[kind])
        model, changes, without = draw_model(draw, document, kind)
        names = model["vocab"] if kind == "bpe" else {p[0]: i for i, p in enumerate(model["vocab"])}
        patch = {"normalizer": draw_normalizer(draw, blob), "pre_tokenizer": draw_pre_tokenizer(draw),
                 "decoder": draw_decoder(draw), "post_processor": None,
                 "added_tokens": [] if without else draw_added(draw, names, len(names))}
        # The library's scheme "first" looks where the characters came from, so what a normalizer puts in front counts too.
        if patch["normalizer"] is not None and '"first"' in json.dumps(patch["pre_tokenizer"]):
            patch["normalizer"] = None
        document.update(patch)
        document["model"] = model
        tokenizer = Tokenizer.from_str(json.dumps(document))
        cases = []
        while len(cases) < num_texts:
            text = draw_text(draw)
            try:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                decoded = tokenizer.decode(ids, skip_special_tokens=False)
            except BaseException:  # the library panics on some overlaps of stripped tokens
                continue
            cases.append({"text": text, "ids": ids, "decoded": decoded})
        # The map is long and the same each time; who reads this puts it in again.
        line = json.dumps({"base": folders[kind], "patch": patch, "model": changes, "without": without, "cases": cases})
        print(line.replace(blob, "MAP"))


if __name__ == "__main__":
    main()
