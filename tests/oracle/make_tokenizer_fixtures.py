#!/usr/bin/env python3
"""Makes tests/oracle/data/tokenizers/*.json: small tokenizers trained by Hugging Face's tokenizers (0.23.1), each with texts, their ids
and what decoding these gives, as that library has them. Takes nothing; needs `tokenizers` installed."""
import json
import pathlib

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


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for make in (gpt2, llama3, llama2, metaspace):
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
        (OUT / f"{make.__name__}.json").write_text(json.dumps(both, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
