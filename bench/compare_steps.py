#!/usr/bin/env python3
"""Compares the tokens per second of several configurations of one model, run in turn.

  bench/compare_steps.py [--rounds 5] NAME[:KEY=VALUE[,KEY=VALUE...]] ... [-- FLAGS of `zerofleet bench step`]

  bench/compare_steps.py data tensor:parallel.tensor=2 sequence:parallel.tensor=2,parallel.sequence=true -- --preset gpt2-124m --steps 2

Each round runs `zerofleet bench step` once for every configuration, and every second round in the opposite order, so that a machine that
slows down does so for all. A ratio is the tokens/s of one run over those of the first configuration's run in the same round. Prints a
Markdown table of medians, with the smallest and the largest ratio. ZEROFLEET names the binary.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))


def tokens_per_second(keys, flags):
    sets = [word for key in keys for word in ("--set", key)]
    done = subprocess.run([BINARY, "bench", "step", "--device", "cpu", "--json", *flags, *sets], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"zerofleet bench step {' '.join(flags + sets)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)["results"][0]["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("configurations", nargs="+", metavar="NAME[:KEY=VALUE,...]")
    words, flags = sys.argv[1:], []
    if "--" in words:
        words, flags = words[:words.index("--")], words[words.index("--") + 1:]
    options = parser.parse_args(words)
    named = [text.partition(":") for text in options.configurations]
    configurations = {name: [key for key in keys.split(",") if key] for name, _, keys in named}
    rates = {name: [] for name in configurations}
    for number in range(options.rounds):
        order = list(configurations)
        for name in order if number % 2 == 0 else reversed(order):
            rates[name].append(tokens_per_second(configurations[name], flags))
        print(f"round {number + 1}: " + ", ".join(f"{name} {each[-1]:.1f}" for name, each in rates.items()), file=sys.stderr, flush=True)
    first = next(iter(rates.values()))
    print("| configuration | tokens/s | ratio | range |\n|---|---|---|---|")
    for name, each in rates.items():
        ratios = [rate / base for rate, base in zip(each, first)]
        print(f"| {name} | {statistics.median(each):.1f} | {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
