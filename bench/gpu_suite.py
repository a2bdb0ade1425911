#!/usr/bin/env python3
"""The steps of gpu_suite.sh: what they are, how long each may take, and what each printed. Standard library only.

A step is a process with its own time limit; one that hangs is killed with all its children, and the next begins. Its
result is the last line it prints, if that is a JSON object, and its exit code; it is written to steps.jsonl immediately.
Steps that only show correctness run several at a time; those that are timed run alone, after them.

Steps belong to parts, each of which takes less than 9 minutes; a call runs one part, or all. The first part decides what
the rest is worth. A step that has passed in an earlier call is not run again: the results of earlier calls are read from
steps.jsonl in the folder of results or, on a new machine, in the folder that --earlier names.

To add a step, add a row to steps(). What a step does is a command of gpu_checks.py, or a program.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu_report  # noqa: E402

BUDGET_SECONDS = 530
FIRST, CORRECTNESS, TIMED, SANITIZER, PEERS = PARTS = ("first", "correctness", "timed", "sanitizer", "peers")


@dataclasses.dataclass
class Step:
    name: str
    what: str
    limit: float
    command: list
    part: str = CORRECTNESS
    alone: bool = False  # a timed step: nothing else runs meanwhile
    absent: str = ""     # why it cannot run here at all


def has_torch():
    """Whether there is a PyTorch of version 2 or later; older ones have no fused attention to compare with."""
    asked = "from torch.nn.functional import scaled_dot_product_attention"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True).returncode == 0


def steps(arguments):
    """Every step in order."""
    dry = arguments.dry_run
    checks = [sys.executable, str(HERE / "gpu_checks.py"), "--bundle", arguments.bundle, "--work", arguments.work,
              "--device", arguments.device, "--vocab", str(arguments.vocab), "--steps", arguments.steps]
    checks += ["--dry-run"] if dry else []
    checks += ["--host-gib", str(arguments.host_gib)] if arguments.host_gib else []
    torch = [sys.executable, str(HERE / "peers" / "torch_gpt2.py"), "--vocab", str(arguments.vocab)]
    no_torch = "" if arguments.torch else "this python3 has no PyTorch 2"
    no_gpu = "a dry run has no GPU" if dry else ""
    emulated = "its sizes are a GPU's, and this one is emulated" if dry and arguments.device == "cuda" else ""
    on_cpu = "a dry run on the CPU" if arguments.device == "cpu" else ""
    no_sanitizer = no_gpu or ("" if shutil.which("compute-sanitizer") else "no compute-sanitizer on this machine")

    def check(name, what, limit, *words, **more):
        return Step(name, what, limit, checks + list(words), **more)

    def bench(name, what, limit, *words, absent="", part=TIMED):
        return check(name, what, limit, "bench", *words, part=part, alone=True, absent=absent)

    # The batch is the one that Zerofleet's own step took or, for some steps, PyTorch's eager step; PyTorch halves it until it
    # fits. An unknown batch is an error: figures at different batches cannot be compared.
    def peer(name, what, limit, model, step, *words, part=PEERS):
        batch = ["--batch-of", arguments.steps, step]
        return Step(name, what, limit, torch + ["--model", model, *batch, *words], part=part, alone=True,
                    absent=no_gpu or no_torch)

    return [
        check("facts", "machine, driver, build, the attention that is chosen", 60, "facts", part=FIRST),
        check("first_parity", "stages 0 and 3 over 20 steps, 2 workers on a GPU over UCX, bf16: equal bits", 90, "first-parity",
              part=FIRST),
        bench("optimizer", "AdamW beside a copy", 30, "optimizer", part=FIRST),
        bench("step_1558m_stage0", "gpt2-1558m, stage 0, batch that fills the card", 75, "step", "gpt2-1558m", "0", part=FIRST),
        peer("torch_1558m_blocks", "PyTorch, each block compiled, gpt2-1558m", 120, "gpt2-1558m", "step_1558m_stage0",
             "--compile", "blocks", part=FIRST),
        check("device_test", "every op of every device against the reference", 120, "gtest", "device_test"),
        check("cuda_test", "cuDNN's attention against the tiled kernels, the vendor's libraries", 90, "gtest",
              "cuda_test", absent=no_gpu),
        check("zero_test", "the ZeRO engine", 60, "gtest", "zero_test"),
        check("trainer_test", "one rank's run", 60, "gtest", "trainer_test"),
        check("collective_test", "collectives, on the GPU's memory too: NCCL alone, two ranks staged", 150, "gtest",
              "collective_test"),
        check("stage_parity_fp32", "stages 0 to 3, 2 workers on a GPU over UCX, fp32: equal bits", 90, "stages", "fp32"),
        check("stage_parity_bf16", "the same in bf16", 90, "stages", "bf16"),
        check("buckets_fp32", "gradients in bands and buckets of 64 KiB beside whole units, 2 workers on a GPU, fp32: equal bits", 90, "buckets", "fp32"),
        check("buckets_bf16", "the same in bf16", 90, "buckets", "bf16"),
        check("tensor_group", "a model in two parts, 2 workers on a GPU over UCX, fp32: the whole model's losses", 90, "tensor-group"),
        check("llama_fp32", "Llama with shared keys and values, fp32: stages to the bit, the CPU's losses", 90, "llama", "fp32"),
        check("llama_bf16", "the same in bf16", 90, "llama", "bf16"),
        check("resume", "a run resumed from a checkpoint, by two workers and by one", 90, "resume"),
        check("recovery", "a killed worker: equal bits from a checkpoint and from snapshots", 120, "recovery"),
        check("offload", "the optimizer on the host, bf16: equal bits in stages 1 and 3", 90, "offload"),
        check("nccl_one_rank", "one rank under nccl beside the same under ucx: equal bits", 60, "nccl", absent=on_cpu),
        check("cpu_against_gpu_fp32", "losses over 50 steps, fp32", 90, "against-cpu", "fp32"),
        check("cpu_against_gpu_bf16", "losses over 50 steps, bf16", 90, "against-cpu", "bf16"),
        check("pytorch_parity_test", "gradients and AdamW steps against stored PyTorch tensors", 60, "gtest",
              "pytorch_parity_test"),
        check("pytorch_losses", "20 losses from PyTorch's own initial weights", 90, "torch-losses", absent=no_torch),
        check("memcheck", "kernels under compute-sanitizer memcheck", 250, "sanitizer", "memcheck",
              part=SANITIZER, absent=no_sanitizer),
        check("racecheck", "kernels under compute-sanitizer racecheck", 250, "sanitizer", "racecheck",
              part=SANITIZER, absent=no_sanitizer),
        # Its sizes are for a GPU and it runs in every type, which takes a CPU a minute or more.
        bench("gemm", "matrix products", 40, "gemm", absent=no_gpu),
        bench("attention", "attention", 30, "attention", absent=emulated),
        bench("pointwise", "norms, activations and conversions", 30, "pointwise", absent=emulated),
        bench("step_1558m_stage3", "gpt2-1558m, stage 3, the same batch", 60, "step", "gpt2-1558m", "3"),
        bench("step_124m_stage0", "gpt2-124m, stage 0", 40, "step", "gpt2-124m", "0"),
        bench("step_124m_stage3", "gpt2-124m, stage 3", 40, "step", "gpt2-124m", "3"),
        peer("torch_1558m", "PyTorch eager, gpt2-1558m", 75, "gpt2-1558m", "step_1558m_stage0"),
        peer("torch_124m", "PyTorch eager, gpt2-124m", 45, "gpt2-124m", "step_124m_stage0"),
        peer("torch_124m_compiled", "PyTorch compiled, gpt2-124m", 90, "gpt2-124m", "step_124m_stage0", "--compile", "whole"),
        check("largest_stage0", "the largest GPT that trains in stage 0: plan against driver", 120, "bench", "largest",
              part=TIMED, alone=True, absent=no_gpu),
        peer("torch_1558m_compiled", "PyTorch compiled, gpt2-1558m", 150, "gpt2-1558m", "torch_1558m", "--compile", "whole"),
    ]


def last_object(text):
    """The JSON object on the last line that is not blank, if there is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def run_limited(command, limit, cwd):
    """(exit code, None if it took too long; what it printed)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               cwd=cwd, start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=limit)
        return process.returncode, printed
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            printed, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            printed = "(what it printed is lost)"
        return None, printed


class Suite:
    def __init__(self, arguments):
        self.arguments = arguments
        self.out = pathlib.Path(arguments.out)
        self.begin = time.monotonic()
        self.results = []
        self.lock = threading.Lock()
        self.resume()

    def resume(self):
        """Takes over the steps that passed in earlier calls with the same bundle and settings; other results are an error."""
        version = subprocess.run([str(pathlib.Path(self.arguments.bundle) / "bin" / "zerofleet"), "--version"],
                                 capture_output=True, text=True).stdout.strip()
        settings = {"settings": {"zerofleet": version, "dry_run": self.arguments.dry_run, "device": self.arguments.device,
                                 "vocab": self.arguments.vocab}}
        lines = pathlib.Path(self.arguments.steps)
        if not lines.exists() and self.arguments.earlier:
            lines.write_text((pathlib.Path(self.arguments.earlier) / lines.name).read_text())
        earlier = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else [settings]
        if earlier[0] != settings:
            sys.exit(f"gpu_suite.py: {lines} has results of {json.dumps(earlier[0])}, and this is {json.dumps(settings)}; "
                     "choose another folder")
        if not lines.exists():
            lines.write_text(json.dumps(settings) + "\n")
        # The last result of each step counts.
        last = {result["step"]: result for result in earlier[1:]}
        self.earlier = {name: result for name, result in last.items() if result["state"] == "passed" and name != "facts"}
        self.results = list(last.values())

    def left(self):
        return self.arguments.budget - (time.monotonic() - self.begin)

    def run(self, step):
        begin = time.monotonic()
        result = {"step": step.name, "what": step.what}
        # A dry run measures nothing, so it may be slow.
        limit = min(step.limit * (10 if self.arguments.dry_run else 1), self.left())
        printed = ""
        if step.absent:
            result.update(state="skipped", why=step.absent)
        elif limit < 5:
            result.update(state="skipped", why="no time was left")
        else:
            code, printed = run_limited(step.command, limit, HERE.parent)
            figures = last_object(printed)
            result["figures"] = figures
            if code is None:
                result.update(state="failed", why=f"not done after {limit:.0f} s")
            elif code != 0:
                result.update(state="failed", why=figures.get("why") or f"exit code {code}")
            elif figures.get("skipped"):
                result.update(state="skipped", why=figures["skipped"])
            else:
                result["state"] = "passed"
        result["seconds"] = round(time.monotonic() - begin, 2)
        self.record(result, printed)

    def record(self, result, printed):
        with self.lock:
            self.results = [other for other in self.results if other["step"] != result["step"]] + [result]
            with open(self.arguments.steps, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(result) + "\n")
            with open(self.out / "suite.log", "a", encoding="utf-8") as log:
                log.write(f"==== {result['step']}: {result['state']}, {result['seconds']} s\n{printed[-200_000:]}\n")
            why = f": {result['why']}" if "why" in result else ""
            print(f"{result['state']:8}{result['seconds']:7.1f} s  {result['step']}{why}", flush=True)

    def run_all(self):
        """Runs the part. A refusal by the facts is printed, and the rest goes on: one slow kernel does not make the others worthless."""
        rows = steps(self.arguments)
        wanted = [step for step in rows[1:] if self.arguments.part in (step.part, "all")]
        remaining = [step for step in wanted if step.name not in self.earlier]
        if len(remaining) < len(wanted):
            print(f"{len(wanted) - len(remaining)} steps have passed in an earlier call", flush=True)
        self.run(rows[0])
        # The first part runs in its own order, the most important steps first. In the other parts timed steps run alone, at the
        # end.
        first = [step for step in remaining if step.part == FIRST]
        for step in first:
            self.run(step)
        remaining = [step for step in remaining if step.part != FIRST]
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            list(pool.map(self.run, [step for step in remaining if not step.alone]))
        alone = [step for step in remaining if step.alone]
        if alone:
            print(f"{time.monotonic() - self.begin:15.1f} s  {self.left():.0f} s are left for what is timed", flush=True)
        for step in alone:
            self.run(step)
        order = {step.name: place for place, step in enumerate(rows)}
        self.results.sort(key=lambda result: order[result["step"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--part", choices=PARTS + ("all",), default="all", help="the steps to run")
    parser.add_argument("--earlier", help="a folder of results whose steps.jsonl is taken over where --out has none")
    parser.add_argument("--dry-run", action="store_true", help="small sizes: measures nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="of a dry run; cuda is for a build that emulates the GPU path")
    parser.add_argument("--budget", type=float, default=BUDGET_SECONDS, help="seconds for everything")
    parser.add_argument("--vocab", type=int, default=50257, help="of both sides in the timed steps")
    parser.add_argument("--host-gib", type=float, help="the host's memory, where /proc/meminfo shows less")
    parser.add_argument("--jobs", type=int, default=max(1, min(4, (os.cpu_count() or 1) // 3)),
                        help="correctness steps at a time")
    arguments = parser.parse_args()
    if not arguments.dry_run:
        arguments.device = "cuda"
    arguments.steps = str(pathlib.Path(arguments.out) / "steps.jsonl")
    os.makedirs(arguments.out, exist_ok=True)
    arguments.torch = has_torch()
    suite = Suite(arguments)
    print(f"part: {arguments.part}; time budget {arguments.budget:.0f} s; {arguments.jobs} correctness steps at a time", flush=True)
    suite.run_all()
    return gpu_report.write(suite.results, suite.out, arguments.dry_run, time.monotonic() - suite.begin,
                            complete=arguments.part == "all")


if __name__ == "__main__":
    sys.exit(main())
