"""Makes a small tokenizer of one's own texts, with Hugging Face's `tokenizers` (pip install tokenizers).

    python train_tokenizer.py FOLDER TEXT...

FOLDER gets tokenizer.json, a byte-level BPE as GPT-2's, and chat_template.jinja.
"""
import pathlib
import shutil
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 1024


def main():
    folder, *texts = map(pathlib.Path, sys.argv[1:])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(text) for text in texts], trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    shutil.copy(pathlib.Path(__file__).parent / "chat_template.jinja", folder)


if __name__ == "__main__":
    main()
