#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes variants.jsonl: tokenizers with drawn components, and what the Python package tokenizers makes of texts.

Run in this folder: python3 make_variants.py > variants.jsonl   (tokenizers 0.23.3)
"""
import copy
import json
import random
import unicodedata

from tokenizers import Tokenizer

EXPRESSIONS = [
    # GPT-4o's and Kimi's words, BLOOM's nested class
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    r"\w+|[^\w\s]+", r"\s", r"\W", r"\b", r"\B.", r"a|", r"\d{1,3}+", r"\p{N}{2}?", r"a{,2}b", r"(?i)s|T",
    r"x(?i)s|t|(a(?i)b|c)d", r"[[:alpha:]]+|[[:^space:]]", r"[[:punct:]]", r"\p{Punct}|\p{Alnum}+", r"\h+", r"\H",
    r"^a|b$", r"(?m:a.)", r"[^\W\d_]+", r"[\W_]+", r"[\S&&[^a-z]]+", r"\p{^L}+", r"(?<=a)b|(?<!a)c", r".", r"\R+",
    r"[\u4E00-\u9FFF]+", r"[!-/:-@\[-`{-~][A-Za-z]+", r"(?>a+)b?|\p{Lu}", r"[\]\-a^]+", r"[]a]+", r"[^]a]+",
    r"a{2}|{|}|a{x",
]
LITERALS = [" ", "a", "  ", "\u4e2d", "\n", "ab", "'"]
ADDED = ["<x>", "<x>y", "ab", "a", "the", " the", "the ", "<|end|>", "\u00e9", "e\u0301", "\n", "\n\n", " ", "  ",
         "\u4e2d\u6587", "\u03a9", "THE", "_", "1"]
FRAGMENTS = [
    "the", "The", "THE", " ", "  ", "\n", "\r\n", "\t", "a", "ab", "aab", "b", "c", "x", "s", "S", "\u017f", "T", "'s",
    "'S", "'ll", "'\u017f", "123", "7", "\u0663", "\u2167", "\u00bd", "\u00e9", "e\u0301", "\u00c9", "\u0130",
    "\u00df", "\u4e2d\u6587", "\u4e2d", "\u6f22\u5b57", "\u30ab\u30ca", "\u03a9", "\u212b", "\ufb01", "\u180e",
    "\u200d", "\u200c", "\u00a0", "\u2028", "\u3000", "\x85", "\x1c", "\x0b", "_", "<x>", "<x>y", "<|end|>", ".", "!",
    "?", "\u2026", "|", "[", "]", "{", "}", "(", ")", "^", "-", "\U0001f600", "\u0301", "\u093f", "\uac01",
    "\ud55c\uae00", "\u1100\u1161\u11a8", "\x00", "$", "+", "\u24b6", "\u0950", "\u0627", "\u064e", "\ufeff",
    "\U0001f130", "deadBEEF", "ab|", "a{x",
]
FORMS = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")] + [
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"},
    {"type": "Replace", "pattern": {"Regex": r"\p{Nd}"}, "content": ""},
    {"type": "Replace", "pattern": {"String": " "}, "content": "b"},
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def draw_split(draw, index):
    # Every expression comes up once; later splits look for a fixed text.
    pattern = {"Regex": EXPRESSIONS[index]} if index < len(EXPRESSIONS) else {"String": draw.choice(LITERALS)}
    return {"type": "Split", "pattern": pattern, "behavior": BEHAVIORS[index % 5], "invert": draw.random() < 0.3}


def draw_normalizer(draw):
    kind = draw.randrange(4)
    if kind < 2:
        return None
    return draw.choice(FORMS) if kind == 2 else {"type": "Sequence", "normalizers": draw.sample(FORMS, 2)}


def draw_added(draw, vocab, normalizer):
    tokens, next_id = [], max(vocab.values()) + 1
    for content in draw.sample(ADDED, draw.randrange(5)):
        normalized = draw.random() < 0.5
        # Two tokens with one normal form, or one that loses its text, have no defined order in the library.
        if normalized and normalizer is not None and content != content.lower().strip(" \n1"):
            continue
        token_id = vocab.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        tokens.append({"id": token_id, "content": content, "single_word": draw.random() < 0.3,
                       "lstrip": draw.random() < 0.3, "rstrip": draw.random() < 0.3, "normalized": normalized,
                       "special": not normalized and draw.random() < 0.5})
    return tokens


def draw_text(draw):
    if draw.random() < 0.15:
        points = [draw.choice([draw.randrange(0x300), draw.randrange(0x30000)]) for _ in range(20)]
        # Characters old enough for every Unicode version in use.
        return "".join(chr(c) for c in points if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs"))
    return "".join(draw.choice(FRAGMENTS) for _ in range(draw.randrange(20)))


def take_out(model, characters):
    keep = {token: i for token, i in model["vocab"].items() if not any(c in token for c in characters)}
    model["vocab"] = keep
    model["merges"] = [m for m in model["merges"] if m[0] in keep and m[1] in keep and m[0] + m[1] in keep]


def main():
    draw = random.Random(20240607)
    with open("bpe_gpt2/tokenizer.json", encoding="utf-8") as file:
        base = json.load(file)
    for index in range(len(EXPRESSIONS) + 20):
        document = copy.deepcopy(base)
        steps = [draw_split(draw, index)]
        if draw.random() < 0.3:
            steps.append({"type": "Digits", "individual_digits": draw.random() < 0.5})
        steps.append({"type": "ByteLevel", "add_prefix_space": draw.random() < 0.4, "trim_offsets": True,
                      "use_regex": draw.random() < 0.4})
        normalizer = draw_normalizer(draw)
        model = {"ignore_merges": draw.random() < 0.5}
        without = ""
        if index % 4 == 3:
            without = draw.choice(["zZ", "\u00c3\u00c2", "09", "\u00e4\u00b8"])
            if draw.random() < 0.7:
                model.update(unk_token="!", fuse_unk=draw.random() < 0.5)
        document["model"].update(model)
        take_out(document["model"], without)
        # The library numbers new tokens by the size of the vocabulary, so a vocabulary with gaps gets none.
        added = [] if without else draw_added(draw, document["model"]["vocab"], normalizer)
        patch = {"normalizer": normalizer, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
                 "added_tokens": added}
        document.update(patch)
        tokenizer = Tokenizer.from_str(json.dumps(document))
        cases = []
        while len(cases) < 12:
            text = draw_text(draw)
            try:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
            except BaseException:  # the library panics on some overlaps of stripped tokens
                continue
            cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        print(json.dumps({"patch": patch, "model": model, "without": without, "cases": cases}))


if __name__ == "__main__":
    main()
