#!/usr/bin/env python3
"""Trains with and without the delayed parameter update (ZeRO-Offload §5.2) on a real text: losses, their final difference, a plot.

  bench/delayed_update.py TEXT [--steps 2000] [--after 40] [--set optimizer.beta1=0.5] [--resume STEP_DIR] [--svg docs/delayed_update.svg] > table.md

Trains the same small model three times, with the same seed and the same batches: without delay, with the paper's rule, and looking ahead; the
last twentieth of the text is held back. The delayed runs also differ from the undelayed one by chance; a further run without delay and with
another seed shows by how much (--no-seed leaves it out). --set changes a key of all runs; --resume starts them from a checkpoint of step 0,
such as `checkpoint import` makes. Prints a Markdown table: the mean training loss of the last 100 steps and the loss on the held-back text. ZEROFLEET names the binary.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
LAST, SMOOTHED = 100, 25


def kinds(options):
    def late(lookahead):
        return {"delayed_update": {"after_steps": options.after, "lookahead": lookahead}}
    seed, after = options.seed, f"after {options.after} steps"
    return {"none": ({}, seed), after: (late(False), seed), f"{after}, looking ahead": (late(True), seed),
            **({"none, another seed": ({}, seed + 1)} if not options.no_seed else {})}


def trained(work, number, delay, seed, options):
    steps = options.steps
    config = {"model": {"layers": 4, "hidden": 128, "heads": 4, "context": 64, "vocab": 256},
              "data": {"train": [str(work / "train.txt")], "validation": [str(work / "held.txt")]},
              "parallel": {"zero_stage": 2, "workers": 2}, "precision": "bf16", "batch": {"global_sequences": 12},
              "steps": steps, "seed": seed,
              "offload": {"optimizer": "cpu", **delay}, "evaluate": {"every_steps": steps, "batches": 100},
              "checkpoint": {"dir": str(work / f"run-{number}"), "every_steps": 0}, "device": "cpu"}
    path, report = work / f"{number}.json", work / f"{number}.jsonl"
    path.write_text(json.dumps(config))
    flags = [flag for change in options.set for flag in ("--set", change)] + (["--resume", options.resume] if options.resume else [])
    done = subprocess.run([BINARY, "train", str(path), "--report", str(report), *flags], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"train ended with {done.returncode}: {done.stderr[-2000:]}")
    events = [json.loads(line) for line in report.read_text().splitlines()]
    return ([event["loss"] for event in events if event["event"] == "step"],
            next(event["loss"] for event in events if event["event"] == "evaluate"))


def smoothed(losses):
    return [statistics.fmean(losses[max(0, at - SMOOTHED + 1):at + 1]) for at in range(0, len(losses), 5)]


def plot(curves):
    """The losses over steps as a self-contained SVG with labels."""
    width, height, left, bottom, top = 760, 360, 50, 40, 20
    steps = max(len(losses) for losses in curves.values())
    low, high = min(map(min, map(smoothed, curves.values()))) * 0.97, 4.0
    across = lambda step: left + (width - left - 20) * step / steps
    down = lambda loss: top + (height - top - bottom) * (1 - (min(loss, high) - low) / (high - low))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in range(0, steps + 1, steps // 4):
        lines.append(f'<text x="{across(tick):.0f}" y="{height - bottom + 18}" text-anchor="middle">{tick}</text>')
    for tenths in range(int(low * 10) // 5 * 5 + 5, int(high * 10) + 1, 5):
        y = down(tenths / 10)
        lines.append(f'<path d="M{left} {y:.1f}H{width - 20}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{tenths / 10}</text>')
    lines.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">step</text>')
    lines.append(f'<text x="14" y="{height / 2}" text-anchor="middle" transform="rotate(-90 14 {height / 2})">training loss, nats per byte, mean of {SMOOTHED}</text>')
    for place, ((name, losses), colour) in enumerate(zip(curves.items(), ("#1f4e9c", "#c8501e", "#1b7f4d", "#999999"))):
        points = " ".join(f"{across(5 * at):.1f},{down(loss):.1f}" for at, loss in enumerate(smoothed(losses)))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        lines.append(f'<text x="{width - 30}" y="{top + 16 + 16 * place}" text-anchor="end" fill="{colour}">delay: {name}</text>')
    return "\n".join(lines) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--after", type=int, default=40)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--resume", metavar="STEP_DIR")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-seed", action="store_true")
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    data = options.text.read_bytes()
    curves = {}
    print("| delay | training loss, last 100 steps | of the first's | loss on held-back text | of the first's |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        cut = len(data) * 95 // 100
        (work / "train.txt").write_bytes(data[:cut])
        (work / "held.txt").write_bytes(data[cut:])
        first = None
        for number, (name, (delay, seed)) in enumerate(kinds(options).items()):
            losses, held = trained(work, number, delay, seed, options)
            curves[name] = losses
            end = statistics.fmean(losses[-LAST:])
            first = first or (end, held)
            print(f"| {name} | {end:.4f} | {100 * (end / first[0] - 1):+.2f}% | {held:.4f} | {100 * (held / first[1] - 1):+.2f}% |", flush=True)
    if options.svg:
        options.svg.write_text(plot(curves))


if __name__ == "__main__":
    main()
