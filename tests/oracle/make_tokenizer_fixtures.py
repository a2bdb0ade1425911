#!/usr/bin/env python3
"""Makes tests/oracle/data/tokenizers/*.json: small tokenizers trained by Hugging Face's tokenizers (0.23.1), each with texts, their ids
and what decoding these gives, as that library has them; the same of sentencepiece models (0.2) and of tiktoken ranks (0.14), whose files
are in base64. Takes the names of those to make, all without any; needs `tokenizers`, `sentencepiece` and `tiktoken` installed."""
import base64
import collections
import io
import json
import pathlib
import sys

import sentencepiece
import tiktoken
import tiktoken_ext.openai_public
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent / "data" / "tokenizers"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SAMPLE = ["In the beginning God created the heaven and the earth. It's the 1st day, isn't it? They've 12345 words.",
          "for (int i = 0; i < n; ++i) { return i + 1; }", "Les élèves étaient naïfs; Straße, señor, Ελλάδα, мир, 世界",
          "the them then there these they thing think this those   and  and and"] * 20
TEXTS = ["", " ", "a", "Hello world", " Hello  world ", "It's they'VE I'll isn't WE'RE", "12345 1 22 333 4444", "tab\tnew\nline\r\n\r\n  end  ",
         "\u00a0\u2003x\u3000y\u0085z\u200b", "e\u0301 \u00e9 \u212b \ufb01 \u1e9b\u0323", "世界 мир Ελλάδα שלום", "🙂👩‍👩‍👧 \U0001f1e9\U0001f1ea",
         "\u0660\u0661\u00b2\u2167\u2460", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the<|end|>the", "<|end|>", " <|end|> x", "a <mask> b",
         "x  <left>  y", "word wordy sword word", "<s>x</s>", "\u2581x \u2581\u2581", "NUL\0byte", "\ufffd\ufeff", "İSTANBUL ẞ", "UPPER Lower",
         "thethethethethethethethethethethethethethe beginning of the beginning", "<0x41><0xZZ>", "...!!!??\n\n\n   \n x"]


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<|end|>"],
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A <|end|>", special_tokens=[("<s>", 0), ("<|end|>", 1)])
    return tokenizer, trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=["<s>", "<|end|>"],
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    return tokenizer, trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=special, max_token_length=12)


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer, trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"])


def write(name, contents):
    (OUT / f"{name}.json").write_text(json.dumps(contents, ensure_ascii=True, separators=(",", ":")) + "\n")


# As Llama 2's: nothing is normalized, and what is unknown becomes bytes; and with what a normalizer can do.
SENTENCEPIECE = {
    "spm_llama": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, vocab_size=450),
    "spm_rules": dict(vocab_size=200, user_defined_symbols=["<mask>", "the<|end|>", "<|e"], byte_fallback=False),
    "spm_bare": dict(vocab_size=420, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                     remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
}
# Code points in hexadecimal, and what they become.
RULES = "41\t61\n42\t62\nFB01\t66 69\n3000\t20\nA0\t20\n9\t20\nA\t20\n65 301\tE9\n200B\t\n1E9E\t73 73\n"


def sentencepiece_model(name):
    model, settings = io.BytesIO(), dict(SENTENCEPIECE[name])
    if "normalization_rule_name" not in settings:
        rules = OUT / "rules.tsv"
        rules.write_text(RULES)
        settings["normalization_rule_tsv"] = str(rules)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SAMPLE), model_writer=model, model_type="bpe", character_coverage=0.98,
                                             minloglevel=2, hard_vocab_limit=False, **settings)
    (OUT / "rules.tsv").unlink(missing_ok=True)
    oracle = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = []
    for text in TEXTS + ["  two  spaces  ", "ABC FAB \ufb01sh \ufb01 \u3000x", "<mask><mask> the<|end|>x <|e", "日本語 xyz", "\u2581", "a\u2581b"]:
        ids = oracle.encode(text)
        cases.append({"text": text, "ids": ids, "special": [oracle.bos_id()] + ids, "decoded": oracle.decode(ids)})
    # Ids as no text gives them: bytes of no character, unknown ones, pieces with spaces first.
    odd = [[i, j] for i in range(0, oracle.vocab_size(), 7) for j in (0, 5, 40, oracle.vocab_size() - 1)]
    decoded = [{"ids": ids, "decoded": oracle.decode([i for i in ids if not oracle.is_control(i)])} for ids in odd]
    write(name, {"cases": cases, "decoded": decoded, "file": base64.b64encode(model.getvalue()).decode()})


def ranks(count):
    """Bytes, then the most frequent pair of SAMPLE again and again."""
    words = collections.Counter(word.encode() for text in SAMPLE for word in text.replace(" ", "\0 ").split("\0"))
    parts = {word: [bytes([byte]) for byte in word] for word in words}
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < count:
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(parts[word], parts[word][1:]):
                pairs[pair] += times
        (left, right), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        tokens.append(left + right)
        for word, split in parts.items():
            merged = []
            for part in split:
                if merged and merged[-1] == left and part == right:
                    merged[-1] = left + right
                else:
                    merged.append(part)
            parts[word] = merged
    return {token: rank for rank, token in enumerate(tokens)}


def tiktoken_ranks(name):
    pattern = {"gpt2": tiktoken_ext.openai_public.r50k_pat_str, "cl100k_base": CL100K, "o200k_base": O200K}[name]
    tokens = ranks(380)
    oracle = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=tokens, special_tokens={"<|endoftext|>": len(tokens)})
    cases = []
    for text in TEXTS + ["a<|endoftext|>b", "<|endoftext|>", "trailing\n \n  ", "CamelCase HTTPServer's 'S\u017f x'LL"]:
        ids = oracle.encode(text, allowed_special="all")
        cases.append({"text": text, "ids": ids, "special": ids, "decoded": oracle.decode(ids)})
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in tokens.items())
    write(f"tiktoken_{name}", {"cases": cases, "file": base64.b64encode(lines.encode()).decode(), "name": f"{name}.tiktoken"})


# As tiktoken_ext.openai_public has them, whose functions fetch their ranks.
CL100K = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""")
O200K = "|".join([
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    for name in SENTENCEPIECE:
        if not wanted or name in wanted:
            sentencepiece_model(name)
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        if not wanted or f"tiktoken_{name}" in wanted:
            tiktoken_ranks(name)
    for make in (gpt2, llama3, llama2, metaspace):
        if wanted and make.__name__ not in wanted:
            continue
        tokenizer, trainer = make()
        tokenizer.train_from_iterator(SAMPLE, trainer)
        if make is llama2:  # its bytes are tokens of the model alone
            kept = json.loads(tokenizer.to_str())
            kept["added_tokens"] = kept["added_tokens"][:3]
            tokenizer = Tokenizer.from_str(json.dumps(kept))
        tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<left>", lstrip=True, rstrip=True),
                              AddedToken("word", single_word=True, normalized=True), AddedToken("the<|end|>", normalized=False)])
        cases = []
        for text in TEXTS:
            plain, special = tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.encode(text).ids
            cases.append({"text": text, "ids": plain, "special": special, "decoded": tokenizer.decode(plain, skip_special_tokens=False)})
        both = {"cases": cases, "tokenizer": json.loads(tokenizer.to_str())}
        write(make.__name__, both)


if __name__ == "__main__":
    main()
