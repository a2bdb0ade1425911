#!/usr/bin/env python3
"""What a trace of every step costs: runs of `zerofleet train` with and without --trace, in turn.

  bench/trace_cost.py [--rounds 8] [--steps 30] [KEY=VALUE ...]
  bench/trace_cost.py --count [--rounds 8] [--steps 6] [KEY=VALUE ...]

  bench/trace_cost.py model.hidden=256 model.layers=4 batch.global_sequences=4
  bench/trace_cost.py --count model.preset=gpt2-char

Every second round has the opposite order, so that a machine that slows down does so for both. Ratios are between the two runs of a round: of
the processor seconds of all processes, including the start and the writing of the file, and of the median step. Prints a Markdown table of
medians with quartiles. ZEROFLEET names the binary.

--count is for a machine whose noise is larger than the cost of a trace. The cost of one span comes from pairs of runs of a model so small
that its spans are a good part of its steps. One figure is how much longer the fast steps (the tenth percentile of hundreds, which no other
process interrupts) take with a trace, divided by the spans of a step; the other is the additional processor seconds of the run, which include
the writing of the file, divided by all its spans. Then the spans of one step of KEY=VALUE's model are counted in its trace, and their number
times that cost is compared with the fastest of its steps.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
WARM_UP = 3  # steps that are left out of the median
TINY = ("model.layers=2", "model.hidden=16", "model.heads=2", "model.intermediate=32", "model.context=8", "model.vocab=256",
        "batch.global_sequences=1")
TINY_STEPS = 1000  # the most steps that a trace may have


def run_once(work, config, sets, steps, trace):
    """Processor seconds of the run, the seconds of each of its steps but the first, and the spans of its trace."""
    run = pathlib.Path(tempfile.mkdtemp(dir=work))
    command = [BINARY, "train", str(config), "--report", str(run / "report.jsonl"),
               *(word for each in (f"checkpoint.dir={run}/checkpoints", *sets) for word in ("--set", each))]
    if trace:
        command += ["--trace", str(run / "trace.json"), "--trace-steps", f"1-{steps}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = [json.loads(line) for line in (run / "report.jsonl").read_text().splitlines()]
    seconds = [event["seconds"] for event in events if event["event"] == "step"][WARM_UP:]
    spans = (run / "trace.json").read_text().count('"ph":"X"') if trace else 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds, spans


def in_turn(rounds, work, config, sets, steps):
    """(figures without a trace, figures with one) of each round."""
    pairs = []
    for number in range(rounds):
        outcomes = {trace: run_once(work, config, sets, steps, trace) for trace in ((False, True), (True, False))[number % 2]}
        pairs.append((outcomes[False], outcomes[True]))
    return pairs


def quartiles(values):
    return statistics.quantiles(values, n=4)


def compare(pairs, steps):
    print("| | without | with | ratio | quartiles |\n|---|---|---|---|---|")
    for name, figure in (("processor seconds", lambda run: run[0]), ("median step, s", lambda run: statistics.median(run[1]))):
        low, middle, high = quartiles([figure(b) / figure(a) for a, b in pairs])
        print(f"| {name} | {statistics.median(figure(a) for a, _ in pairs):.4f} | {statistics.median(figure(b) for _, b in pairs):.4f} "
              f"| {middle:.4f} | {low:.4f} to {high:.4f} |")
    print(f"\n{pairs[0][1][2] / steps:.0f} spans a step")


def fast(seconds):
    return statistics.quantiles(seconds, n=10)[0]


def count(rounds, work, config, sets, steps, tiny_sets):
    pairs = in_turn(rounds, work, config, tiny_sets, TINY_STEPS)
    spans = pairs[0][1][2] / TINY_STEPS
    marks = quartiles([(fast(b[1]) - fast(a[1])) / spans for a, b in pairs])
    everything = quartiles([(b[0] - a[0]) / b[2] for a, b in pairs])
    print("| cost of one span, µs | lower quartile | median | upper quartile |\n|---|---|---|---|")
    for name, (low, middle, high) in (("in a fast step", marks), ("processor time, with the file", everything)):
        print(f"| {name} | {1e6 * low:.2f} | {1e6 * middle:.2f} | {1e6 * high:.2f} |")
    cost = max(marks[2], everything[2])
    print("\n| model | spans a step | a step without a trace, ms | its spans, ms | share |\n|---|---|---|---|---|")
    (_, seconds, _), (_, _, traced) = in_turn(1, work, config, sets, steps)[0]
    for name, number, step in (("smallest", spans, statistics.median(fast(a[1]) for a, _ in pairs)),
                               (" ".join(sets[3:]) or "4 layers of 256", traced / steps, min(seconds))):
        print(f"| {name} | {number:.0f} | {1e3 * step:.3f} | {1e3 * number * cost:.3f} | {100 * number * cost / step:.3f}% |")
    print(f"\nAt {1e6 * cost:.2f} µs a span, the largest upper quartile, a step with {traced / steps:.0f} spans that takes "
          f"{1e5 * cost * traced / steps:.1f} ms or more costs under 1% with a trace.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--count", action="store_true", help="the spans of a step times the cost of one")
    parser.add_argument("sets", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        text = pathlib.Path(work) / "text.txt"
        text.write_text("".join(chr(97 + i * i % 23) for i in range(400_000)))
        config = pathlib.Path(work) / "run.yaml"
        never = ["evaluate.every_steps=0", "checkpoint.every_steps=0"]
        model = {"preset": "gpt2-124m", "layers": 4, "hidden": 256, "heads": 4, "intermediate": 1024, "context": 128, "vocab": 512}
        base = {"model": model, "data": {"train": [str(text)], "format": "text", "tokenizer": "bytes"}, "batch": {"global_sequences": 4},
                "device": "cpu"}
        if any(each.startswith("model.preset=") for each in options.sets):
            base["model"] = {}
        config.write_text(json.dumps(base))
        sets = [f"steps={options.steps}", *never, *options.sets]
        if options.count:
            count(options.rounds, work, config, sets, options.steps, [f"steps={TINY_STEPS}", *never, *TINY])
        else:
            compare(in_turn(options.rounds, work, config, sets, options.steps), options.steps)


if __name__ == "__main__":
    main()
