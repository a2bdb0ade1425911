#!/usr/bin/env python3
"""The steps of gpu_suite.py as one JSON and one Markdown result, each figure next to its floor.

    gpu_report.py OUT      writes OUT/result.json and OUT/result.md again from OUT/steps.jsonl

A floor is a row of FLOORS: what is measured, from which steps, and the required figure.
"""
import datetime
import json
import pathlib
import sys

# GPUs that have floors, by a part of their name; on other GPUs figures are reported but not judged. An H100 has the FLOP/s of an
# H200 and 0.7 of its memory bandwidth.
JUDGED_GPUS = ("H200", "H100")


def value(steps, step, *path):
    """A figure of a step; None if the step did not pass or has no such figure."""
    found = steps.get(step, {})
    if found.get("state") != "passed":
        return None
    found = found.get("figures", {})
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def ratio(numerator, denominator):
    return None if numerator is None or not denominator else numerator / denominator


def speed(steps, step):
    return value(steps, step, "tokens_per_second")


def adamw_over_copy(steps):
    """The rate of the slowest precision."""
    rows = [row for row in value(steps, "optimizer", "results") or [] if row["optimizer"] == "adamw"]
    return min((row["bytes_per_second"] / row["memory_bytes_per_second"] for row in rows), default=None)


def plan_error(steps, step):
    over = value(steps, step, "plan_over_driver")
    return None if over is None else abs(over - 1)


# (what, its figure, the floor or one for each of JUDGED_GPUS; with "most" it is a limit that the figure may not exceed)
FLOORS = [
    ("gpt2-1558m, context 1024, bf16, stage 0, 1 worker: share of the datasheet's FLOP/s",
     lambda s: value(s, "step_1558m_stage0", "mfu"), (0.55, 0.52), "least"),
    ("gpt2-1558m: tokens/s over PyTorch eager's", lambda s: ratio(speed(s, "step_1558m_stage0"), speed(s, "torch_1558m")),
     1.3, "least"),
    ("gpt2-1558m: tokens/s over compiled PyTorch's",
     lambda s: ratio(speed(s, "step_1558m_stage0"), speed(s, "torch_1558m_compiled")), 1.05, "least"),
    ("gpt2-124m, context 1024, bf16, stage 0, 1 worker: share of the datasheet's FLOP/s",
     lambda s: value(s, "step_124m_stage0", "mfu"), (0.45, 0.42), "least"),
    ("gpt2-124m: tokens/s over compiled PyTorch's",
     lambda s: ratio(speed(s, "step_124m_stage0"), speed(s, "torch_124m_compiled")), 1.05, "least"),
    ("AdamW: bytes/s over a device-to-device copy's", adamw_over_copy, 0.90, "least"),
    ("gpt2-1558m: stage 3 with 1 worker over stage 0",
     lambda s: ratio(speed(s, "step_1558m_stage3"), speed(s, "step_1558m_stage0")), 0.97, "least"),
    ("gpt2-124m: stage 3 with 1 worker over stage 0",
     lambda s: ratio(speed(s, "step_124m_stage3"), speed(s, "step_124m_stage0")), 0.97, "least"),
    ("gpt2-1558m, batch that fills the card: plan from the driver's figure", lambda s: plan_error(s, "step_1558m_stage0"),
     0.02, "most"),
    ("largest GPT that trains in stage 0: plan from the driver's figure", lambda s: plan_error(s, "largest_stage0"), 0.02,
     "most"),
]


def judged(steps, dry):
    """[{what, figure, floor, kind, verdict}]"""
    gpus = (steps.get("facts", {}).get("figures") or {}).get("gpus") or [{}]
    gpu = next((number for number, name in enumerate(JUDGED_GPUS) if name in gpus[0].get("name", "")), None)
    rows = []
    for what, figure_of, floor, kind in FLOORS:
        figure = figure_of(steps)
        if isinstance(floor, tuple):
            floor = floor[gpu or 0]
        if dry or figure is None:
            figure, verdict = None, "not measured"
        elif gpu is None:
            verdict = f"not judged: floors are for {' and '.join(JUDGED_GPUS)}"
        else:
            verdict = "held" if (figure >= floor if kind == "least" else figure <= floor) else "missed"
        rows.append({"what": what, "figure": figure, "floor": floor, "kind": kind, "verdict": verdict})
    return rows


def short(number):
    return "-" if number is None else f"{number:.4g}"


def kernel_tables(steps):
    """Markdown tables of the benches of single kernels."""
    lines = []
    for name in ("gemm", "attention", "pointwise", "optimizer"):
        rows = value(steps, name, "results") or []
        if not rows:
            continue
        keys = list(rows[0])
        lines += [f"## {name}", "", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
        for row in rows:
            cells = (short(row[key]) if isinstance(row[key], float) else str(row[key]) for key in keys)
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def markdown(document):
    facts = document["facts"]
    gpus = ", ".join(f"{gpu.get('name')} ({gpu.get('memory.total')}, driver {gpu.get('driver_version')})"
                     for gpu in facts.get("gpus", [])) or "no GPU"
    lines = [f"# {document['title']}", ""]
    if document["dry_run"]:
        lines += ["**Not a GPU result: a dry run of the script on the CPU, at sizes that measure nothing.**", ""]
    lines += [f"{gpus}; {facts.get('host')}, {facts.get('cores')} cores; {facts.get('zerofleet')}. "
              f"`bench/gpu_suite.sh`, {document['seconds']:.0f} s in all.", "",
              "## Floors", "", "| what | measured | floor | |", "|---|---|---|---|"]
    for row in document["floors"]:
        sign = "at least" if row["kind"] == "least" else "at most"
        lines.append(f"| {row['what']} | {short(row['figure'])} | {sign} {row['floor']} | {row['verdict']} |")
    lines += ["", "## Steps", "", "| step | what | | seconds | |", "|---|---|---|---|---|"]
    for step in document["steps"]:
        lines.append(f"| {step['step']} | {step['what']} | {step['state']} | {step['seconds']} | {step.get('why', '')} |")
    lines += ["", "## Training steps", "", "| step | batch | seconds | tokens/s | of peak |", "|---|---|---|---|---|"]
    for step in document["steps"]:
        figures = step.get("figures") or {}
        if "tokens_per_second" not in figures:
            continue
        seconds = figures.get("seconds", figures.get("median_seconds"))
        cells = [step["step"], str(figures.get("batch")), short(seconds), short(figures["tokens_per_second"]),
                 short(figures.get("mfu"))]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    return "\n".join(lines + kernel_tables({step["step"]: step for step in document["steps"]}))


def write(results, out, dry, seconds, complete=True):
    """Writes result.json and result.md in `out`; returns the suite's exit code. Unless `complete`, floors of parts that have
    not run yet do not count as missed."""
    steps = {result["step"]: result for result in results}
    floors = judged(steps, dry)
    failed = [result["step"] for result in results if result["state"] == "failed"]
    skipped = [result["step"] for result in results if result["state"] == "skipped"]
    missed = [row["what"] for row in floors if row["verdict"] == "missed"]
    unknown = [row["what"] for row in floors if row["verdict"] == "not measured"] if not dry and complete else []
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    document = {"title": f"GPU suite, {date}" + (", DRY RUN" if dry else ""), "dry_run": dry,
                "seconds": round(seconds, 1), "facts": (steps.get("facts", {}).get("figures") or {}),
                "failed": failed, "skipped": skipped, "missed_floors": missed, "floors": floors, "steps": results}
    (out / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    (out / "result.md").write_text(markdown(document) + "\n")
    print(f"{len(results) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped, "
          f"{len(missed)} floors missed, {len(unknown)} not measured, {seconds:.0f} s"
          + (": a DRY RUN on the CPU, not a GPU result" if dry else ""))
    for row in floors if not dry else []:
        print(f"  {short(row['figure']):>8}  floor {row['floor']:<5} {row['verdict']:12} {row['what']}")
    return 1 if failed else 3 if missed or unknown else 0


def main():
    out = pathlib.Path(sys.argv[1])
    results = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    old = json.loads((out / "result.json").read_text()) if (out / "result.json").exists() else {}
    seconds = old.get("seconds", sum(result["seconds"] for result in results))
    return write(results, out, old.get("dry_run", False), seconds)


if __name__ == "__main__":
    sys.exit(main())
