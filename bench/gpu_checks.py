#!/usr/bin/env python3
"""The commands behind the steps of gpu_suite.py. Each command ends with a line of JSON and an exit code. Standard library only.

    gpu_checks.py --bundle DIR --work DIR --device cuda COMMAND [ARGUMENT]...

Losses are compared as printed in the report, which prints floats so that they read back exactly.
"""
import argparse
import array
import json
import math
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FP32_TOLERANCE, BF16_TOLERANCE = 1e-4, 1e-2
CARD_SHARE = 0.96   # fraction of the GPU's memory that a step may be planned to fill
HOST_SHARE = 0.75   # the same for the host's memory
SMALL_MODEL_BATCH = 64  # enough to fill its kernels, long before the card's memory is full
WARM_UP, STEPS = 3, 7


def library_environment():
    """The environment of Zerofleet's programs, with the folders in which gpu_suite.sh found cuBLASLt, cuDNN and NCCL."""
    folders = [os.environ.get("GPU_SUITE_LIBRARIES"), os.environ.get("LD_LIBRARY_PATH")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def host_gib():
    with open("/proc/meminfo", encoding="ascii") as lines:
        total = int(lines.readline().split()[1]) / 2**20
    limit = pathlib.Path("/sys/fs/cgroup/memory.max")  # the memory limit of a container
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(total, int(text) / 2**30) if text.isdigit() else total


class CheckFailed(Exception):
    pass


def finish(figures):
    print(json.dumps(figures), flush=True)


class Zerofleet:
    """The bundle's binary, and small runs of it."""

    def __init__(self, arguments):
        self.binary = str(pathlib.Path(arguments.bundle) / "bin" / "zerofleet")
        self.libexec = pathlib.Path(arguments.bundle) / "libexec"
        self.device, self.dry = arguments.device, arguments.dry_run
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="check-", dir=arguments.work))

    def call(self, *words):
        done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, cwd=self.work,
                              env=library_environment())
        if done.returncode != 0:
            raise CheckFailed(f"zerofleet {words[0]}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def config(self, name, **changes):
        """A byte-level model of 1.8M parameters, smaller in a dry run, on made-up text."""
        text = self.work / "text.txt"
        if not text.exists():
            draw = random.Random(1)
            text.write_bytes(bytes(draw.choice(b"etaoin shrdlu\n") for _ in range(200_000)))
        model = {"layers": 2, "hidden": 32, "heads": 4, "context": 32} if self.dry else \
                {"layers": 4, "hidden": 192, "heads": 3, "context": 128}
        config = {"model": {"family": "gpt2", **model}, "data": {"train": [str(text)], "format": "text"},
                  "parallel": {"zero_stage": 2, "workers": 1}, "precision": "fp32", "device": self.device,
                  "batch": {"global_sequences": 8}, "optimizer": {"learning_rate": 1e-3}, "steps": 12,
                  "schedule": {"warmup_steps": 4}, "checkpoint": {"dir": str(self.work / name), "every_steps": 0},
                  "restart": {"heartbeat_timeout_seconds": 20}}
        for key, value in changes.items():
            config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
        path = self.work / f"{name}.yaml"
        path.write_text(json.dumps(config))
        return path

    def train(self, name, *flags, **changes):
        """{step: (loss, grad_norm)} of a run."""
        report = self.work / f"{name}.jsonl"
        self.call("train", self.config(name, **changes), "--report", report, *flags)
        return self.losses(name)

    def train_with_a_kill(self, name, step, **changes):
        """The same of a run, one of whose workers is killed behind `step`."""
        report, errors = self.work / f"{name}.jsonl", self.work / f"{name}.err"
        with open(errors, "wb") as to:
            process = subprocess.Popen([self.binary, "train", str(self.config(name, **changes)), "--report", str(report)],
                                       stdout=subprocess.DEVNULL, stderr=to, cwd=self.work, env=library_environment())
        while process.poll() is None and not (report.exists() and f'"step":{step},' in report.read_text().replace(" ", "")):
            time.sleep(0.02)
        workers = [pid for pid in children(process.pid)
                   if pathlib.Path("/proc", str(pid), "cmdline").read_text().split("\0")[1:2] == ["worker"]]
        if workers:
            os.kill(workers[-1], signal.SIGKILL)
        process.wait()
        if process.returncode != 0:
            raise CheckFailed(f"{name}: exit code {process.returncode} behind a killed worker: "
                              f"{errors.read_text(errors='replace').strip()[-500:]}")
        if not any(json.loads(line)["event"] == "recovery" for line in report.read_text().splitlines()):
            raise CheckFailed(f"{name}: the report tells of no recovery")
        return self.losses(name)

    def losses(self, name):
        report = self.work / f"{name}.jsonl"
        events = [json.loads(line) for line in report.read_text().splitlines()]
        losses = {event["step"]: (event["loss"], event["grad_norm"]) for event in events if event["event"] == "step"}
        if not losses or not all(math.isfinite(loss) for loss, _ in losses.values()):
            raise CheckFailed(f"{name}: no losses, or some that are not finite")
        return losses


def children(of):
    """The processes that `of` has started."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
        if parent == of:
            found.append(int(place.name))
    return sorted(found)


def largest_difference(wanted, got):
    """The largest relative difference of the losses."""
    if sorted(wanted) != sorted(got):
        raise CheckFailed("the two runs have different steps")
    return max(abs(wanted[step][0] - got[step][0]) / abs(wanted[step][0]) for step in wanted)


def same_bits(wanted, got, what):
    for step in sorted(wanted):
        if wanted[step] != got.get(step):
            raise CheckFailed(f"{what}: step {step}: loss and norm {wanted[step]} against {got.get(step)}")


# --- facts and tests

def facts(zerofleet, arguments):
    figures = {"host": platform.platform(), "cores": os.cpu_count(),
               "zerofleet": zerofleet.call("--version").strip(), "libraries": os.environ.get("GPU_SUITE_LIBRARIES", "")}
    if shutil.which("nvidia-smi"):
        fields = ["name", "uuid", "driver_version", "memory.total", "memory.used", "clocks.max.sm", "power.limit"]
        query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
        rows = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
        figures["gpus"] = [dict(zip(fields, map(str.strip, row.split(",")))) for row in rows]
    if zerofleet.device == "cuda" and not zerofleet.dry and not figures.get("gpus"):
        raise CheckFailed("nvidia-smi shows no GPU")
    figures["attention"] = attention_chosen(zerofleet)
    slow = sorted(dtype for dtype, chosen in figures["attention"].items() if dtype != "fp32" and chosen.startswith("tiled"))
    if slow:
        figures["why"] = (f"attention in {' and '.join(slow)} runs on the tiled kernels, an order of magnitude slower "
                          f"({figures['attention'][slow[0]]}): is cuDNN 9 where the loader finds it? "
                          f"It was looked for in {figures['libraries'] or 'no folder'}")
    finish(figures)
    return 1 if slow else 0


# A threshold, relative to the GEMM peak, in the forward: cuDNN's fused kernels reach half of the peak and more, the tiled ones a
# few hundredths.
SLOWEST_FUSED_SHARE = 0.15


def attention_chosen(zerofleet):
    """{type: the attention that GPT-2's shapes use}: tiled where the library refuses a shape in either direction, or is as slow as tiled."""
    if zerofleet.dry:
        return {"bf16": zerofleet.device}
    rows = json.loads(zerofleet.call("bench", "attention", "--device", zerofleet.device, "--json"))["results"]
    chosen = {}
    for dtype in sorted({row["dtype"] for row in rows}):
        own = [row for row in rows if row["dtype"] == dtype]
        refused = [f"{row['attention']} {row['direction']}: {row['refusal']}" for row in own if row["refusal"]]
        share = min(row["flops_per_second"] / row["peak_flops_per_second"] for row in own if row["direction"] == "forward")
        if refused or share < SLOWEST_FUSED_SHARE:
            chosen[dtype] = "tiled, " + ("; ".join(refused) or f"{share:.0%} of the GEMM peak")
        else:
            chosen[dtype] = f"fused, {share:.0%} of the GEMM peak"
    return chosen


# For a dry run: a few tests of each program that take no time.
DRY_FILTERS = {"device_test": "DTypeTest.*:DecideStep.*", "zero_test": "ZeroLayout.*", "trainer_test": "RankReport.*",
               "collective_test": "SumTest.*", "pytorch_parity_test": "*/cpu_a"}
# Tests of collective_test whose ranks are processes would start a program of the build folder, which is not here.
FULL_FILTERS = {"collective_test": "-*Process*"}
# These programs have tests of every device, and those of cuda must have run.
OF_EVERY_DEVICE = ("device_test", "pytorch_parity_test", "collective_test")
OF_CUDA = r"\S*(?:cuda|DeviceMemory)\S*"


def run_gtest(zerofleet, command, name, filter_text):
    done = subprocess.run([*command, str(zerofleet.libexec / name), f"--gtest_filter={filter_text}"], capture_output=True,
                          text=True, errors="replace", cwd=HERE.parent, env=library_environment())
    printed = done.stdout + done.stderr
    print(printed[-100_000:])
    counts = {state: int(match.group(1)) if (match := re.search(rf"\[\s*{state}\s*\] (\d+) test", printed)) else 0
              for state in ("PASSED", "SKIPPED", "FAILED")}
    return done.returncode, counts, printed


def gtest(zerofleet, arguments):
    name = arguments.words[0]
    chosen = DRY_FILTERS[name] if zerofleet.dry else FULL_FILTERS.get(name, "*")
    code, counts, printed = run_gtest(zerofleet, [], name, chosen)
    figures = {"passed": counts["PASSED"], "skipped_tests": counts["SKIPPED"], "failed": counts["FAILED"]}
    # If a device is there, none of its tests may be skipped.
    on_gpu = zerofleet.device == "cuda" and not zerofleet.dry
    whose = r"\S+" if name == "cuda_test" else OF_CUDA
    left_out = set(re.findall(rf"\[  SKIPPED \] ({whose})", printed)) if on_gpu else set()
    figures["of_cuda"] = len(re.findall(rf"\[       OK \] {OF_CUDA}", printed))
    none_of_cuda = on_gpu and name in OF_EVERY_DEVICE and figures["of_cuda"] == 0
    if code != 0 or left_out or counts["PASSED"] == 0 or none_of_cuda:
        figures["why"] = (f"exit code {code}: {counts['FAILED']} failed, {figures['of_cuda']} of cuda passed, "
                          f"{len(left_out)} of cuda left out")
    finish(figures)
    return 1 if "why" in figures else 0


def sanitizer(zerofleet, arguments):
    tool = arguments.words[0]
    # Every op once, in one type, and the tiled attention kernels, which fp32 uses. Tests of determinism would only repeat them
    # all.
    under = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
    # Only our own kernels: the vendor's would take minutes, and are not ours to judge.
    usage = subprocess.run(["compute-sanitizer", "--help"], capture_output=True, text=True).stdout
    if "--kernel-regex" in usage:
        under += ["--kernel-regex", "kns=zerofleet"]
    code, counts, printed = run_gtest(zerofleet, under, "device_test",
                                      "Devices/*/cuda_bf16:Devices/*Attention*/cuda_fp32:-*Determinism*")
    if "Device not supported" in printed:
        finish({"skipped": "compute-sanitizer refuses this machine: Device not supported"})
        return 0
    figures = {"tool": tool, "passed": counts["PASSED"], "failed": counts["FAILED"]}
    if code != 0 or counts["PASSED"] == 0:
        summary = re.findall(r"========= (.*SUMMARY.*)", printed)
        figures["why"] = f"exit code {code}; {summary[-1] if summary else 'no summary'}"
    finish(figures)
    return 1 if "why" in figures else 0


# --- runs that must agree

def stages(zerofleet, arguments):
    precision, runs, steps = arguments.words[0], {}, 4 if zerofleet.dry else 16
    for stage in range(4):
        runs[stage] = zerofleet.train(f"stage-{stage}", precision=precision, steps=steps, collectives="ucx",
                                      parallel={"zero_stage": stage, "workers": 2})
    for stage in (1, 2, 3):
        same_bits(runs[0], runs[stage], f"{precision}, stage {stage} against stage 0")
    finish({"precision": precision, "steps": len(runs[0]), "workers": 2, "last_loss": runs[0][len(runs[0])][0]})


def first_parity(zerofleet, arguments):
    """Losses of stage 0, which splits nothing, and of stage 3, which splits everything."""
    runs = [zerofleet.train(f"stage-{stage}", precision="bf16", steps=4 if zerofleet.dry else 20, collectives="ucx",
                            parallel={"zero_stage": stage, "workers": 2}) for stage in (0, 3)]
    same_bits(*runs, "stage 3 against stage 0")
    finish({"steps": len(runs[0]), "workers": 2, "last_loss": runs[0][len(runs[0])][0]})


def buckets(zerofleet, arguments):
    """Gradients in bands and buckets of 64 KiB give the bits of whole units, in a stage where they rest whole and one where they are split."""
    for stage in (1, 3):
        runs = [zerofleet.train(f"stage-{stage}-{size}", precision=arguments.words[0], steps=4 if zerofleet.dry else 16, collectives="ucx",
                                parallel={"zero_stage": stage, "workers": 2}, buffers={"bucket_bytes": size}) for size in (0, 65536)]
        same_bits(*runs, f"stage {stage} in buckets")
    finish({"precision": arguments.words[0], "steps": len(runs[0]), "workers": 2, "last_loss": runs[0][len(runs[0])][0]})


def tensor_group(zerofleet, arguments):
    """Two ranks share a model: with sequences whole and divided its losses are those of one rank, and neither the activations that are kept
    nor where they are kept changes a bit."""
    def train(name, **changes):
        return zerofleet.train(name, model={"heads": 4}, collectives="ucx", steps=4 if zerofleet.dry else 16, **changes)

    def of_two(name, sequence=False, **activation):
        parallel = {"workers": 2, "tensor": 2, "sequence": sequence}
        return train(name, parallel=parallel, activation={"checkpointing": "block", **activation})

    whole, parts, divided = train("whole"), of_two("parts"), of_two("divided", sequence=True)
    difference = max(largest_difference(whole, parts), largest_difference(whole, divided))
    if difference > FP32_TOLERANCE:
        raise CheckFailed(f"losses of two parts differ from the whole model's by {difference:.2e}, more than {FP32_TOLERANCE:.0e}")
    same_bits(parts, of_two("partitioned", partition=True), "inputs in parts")
    same_bits(parts, of_two("on-the-host", partition=True, offload="cpu"), "inputs in parts on the host")
    finish({"steps": len(whole), "largest_relative_difference": difference, "tolerance": FP32_TOLERANCE})


def llama(zerofleet, arguments):
    """Llama, whose heads share keys and values: stages 0 and 3 to the bit, and the CPU's losses."""
    precision, steps = arguments.words[0], 4 if zerofleet.dry else 30
    model = {"family": "llama", "heads": 4, "kv_heads": 2, "intermediate": 64 if zerofleet.dry else 512}

    def train(name, stage, **changes):
        return zerofleet.train(name, precision=precision, steps=steps, collectives="ucx", model=model,
                               parallel={"zero_stage": stage, "workers": 2}, **changes)

    ours = train("stage-0", 0)
    same_bits(ours, train("stage-3", 3), f"{precision}, stage 3 against stage 0")
    tolerance = FP32_TOLERANCE if precision == "fp32" else BF16_TOLERANCE
    difference = largest_difference(train("cpu", 0, device="cpu"), ours)
    if difference > tolerance:
        raise CheckFailed(f"losses differ from the CPU's by {difference:.2e}, more than {tolerance:.0e}")
    finish({"precision": precision, "steps": steps, "largest_relative_difference": difference, "tolerance": tolerance})


def resume(zerofleet, arguments):
    """What goes on from a checkpoint, with as many workers or fewer, takes the steps of what was not interrupted."""
    half = 2 if zerofleet.dry else 8
    parallel, checkpoint = {"zero_stage": 3, "workers": 2}, {"every_steps": half}
    whole = zerofleet.train("whole", steps=2 * half, collectives="ucx", parallel=parallel, checkpoint=checkpoint)
    from_half = ["--resume", zerofleet.work / "whole" / f"step-{half:08}"]
    rest = {step: figures for step, figures in whole.items() if step > half}
    same_bits(rest, zerofleet.train("again", *from_half, steps=2 * half, collectives="ucx", parallel=parallel), "resumed")
    alone = zerofleet.train("alone", *from_half, steps=2 * half, collectives="ucx", parallel={"zero_stage": 1, "workers": 1})
    difference = largest_difference(rest, alone)
    if difference > FP32_TOLERANCE:
        raise CheckFailed(f"losses of one worker differ by {difference:.2e}, more than {FP32_TOLERANCE:.0e}")
    finish({"steps": len(rest), "of_one_worker": difference, "tolerance": FP32_TOLERANCE})


def recovery(zerofleet, arguments):
    """A killed worker costs no bit, in the recovery from a checkpoint and from snapshots in memory."""
    # So many that the kill comes long before the end: steps take milliseconds, on an emulated GPU half a second.
    steps = 400 if not zerofleet.dry else 150 if zerofleet.device == "cpu" else 20
    settings = {"steps": steps, "collectives": "ucx", "parallel": {"zero_stage": 3, "workers": 2}}
    undisturbed = zerofleet.train("undisturbed", **settings)
    for name, checkpoint in (("checkpoint", {"every_steps": steps // 16}), ("snapshots", {"every_steps": 0, "snapshot_every_steps": 2})):
        same_bits(undisturbed, zerofleet.train_with_a_kill(name, steps // 5, checkpoint=checkpoint, **settings), f"from {name}")
    finish({"steps": steps, "workers": 2, "last_loss": undisturbed[steps][0]})


def offload(zerofleet, arguments):
    """The optimizer on the host: the GPU's losses, and the same bits in stages 1 and 3."""
    steps = 4 if zerofleet.dry else 30
    settings = {"precision": "bf16", "steps": steps, "collectives": "ucx"}
    on_gpu = zerofleet.train("on-gpu", parallel={"zero_stage": 1, "workers": 2}, **settings)
    runs = [zerofleet.train(f"stage-{stage}", parallel={"zero_stage": stage, "workers": 2}, offload={"optimizer": "cpu"}, **settings)
            for stage in (1, 3)]
    same_bits(*runs, "stage 3 against stage 1")
    difference = largest_difference(on_gpu, runs[0])
    if difference > BF16_TOLERANCE:
        raise CheckFailed(f"losses differ by {difference:.2e}, more than {BF16_TOLERANCE:.0e}")
    finish({"steps": steps, "largest_relative_difference": difference, "tolerance": BF16_TOLERANCE})


def nccl(zerofleet, arguments):
    """NCCL in a group of one rank, which moves nothing; collective_test tests NCCL itself."""
    runs = {name: zerofleet.train(name, collectives=name, parallel={"zero_stage": 3}) for name in ("ucx", "nccl")}
    same_bits(runs["ucx"], runs["nccl"], "nccl against ucx")
    finish({"steps": len(runs["nccl"]), "last_loss": runs["nccl"][len(runs["nccl"])][0]})


def against_cpu(zerofleet, arguments):
    precision = arguments.words[0]
    tolerance = FP32_TOLERANCE if precision == "fp32" else BF16_TOLERANCE
    steps = 5 if zerofleet.dry else 50
    ours = zerofleet.train("ours", precision=precision, steps=steps)
    theirs = zerofleet.train("cpu", precision=precision, steps=steps, device="cpu", collectives="ucx")
    difference = largest_difference(theirs, ours)
    figures = {"precision": precision, "steps": steps, "largest_relative_difference": difference, "tolerance": tolerance}
    if difference > tolerance:
        figures["why"] = f"losses differ by {difference:.2e}, more than {tolerance:.0e}"
    finish(figures)
    return 1 if "why" in figures else 0


def torch_losses(zerofleet, arguments):
    """The data set is a single batch, so that the order of samples does not matter."""
    steps, sequences, rate = 20, 8, 1e-3
    shape = {"layers": 2, "hidden": 64, "heads": 2, "context": 32, "vocab": 256} if zerofleet.dry else \
            {"layers": 4, "hidden": 256, "heads": 4, "context": 128, "vocab": 512}
    draw = random.Random(2)
    tokens = array.array("H", (draw.randrange(shape["vocab"]) for _ in range(sequences * shape["context"] + 1)))
    data, weights = zerofleet.work / "tokens.u16", zerofleet.work / "weights"
    imported = zerofleet.work / "run" / "step-00000000"
    data.write_bytes(tokens.tobytes())
    peer = subprocess.run([sys.executable, str(HERE / "peers" / "torch_gpt2.py"), "--losses", str(steps),
                           "--save", str(weights), "--tokens", str(data), "--batch", str(sequences),
                           "--learning-rate", str(rate), "--device", zerofleet.device, "--shape", json.dumps(shape)],
                          capture_output=True, text=True)
    if peer.returncode != 0:
        raise CheckFailed(f"torch_gpt2.py: {peer.stderr.strip()[-800:]}")
    wanted = {step: (loss, 0) for step, loss in enumerate(json.loads(peer.stdout.splitlines()[-1])["losses"], 1)}
    zerofleet.call("checkpoint", "import", weights, imported)
    got = zerofleet.train("run", "--resume", imported, model=shape, data={"train": [str(data)], "format": "tokens_u16"},
                          steps=steps, optimizer={"learning_rate": rate},
                          schedule={"warmup_steps": 0, "decay": "constant", "min_learning_rate": rate})
    difference = largest_difference(wanted, got)
    figures = {"steps": steps, "largest_relative_difference": difference, "tolerance": FP32_TOLERANCE}
    if difference > FP32_TOLERANCE:
        figures["why"] = f"losses differ by {difference:.2e}, more than {FP32_TOLERANCE:.0e}"
    finish(figures)
    return 1 if "why" in figures else 0


# --- benches

def kernel_bench(zerofleet, name):
    words = ["bench", name, "--device", zerofleet.device, "--json"]
    if name == "optimizer":
        words += ["--parameters", "100000" if zerofleet.dry else "500000000"]
    finish(json.loads(zerofleet.call(*words)))


def planned(zerofleet, model, stage, micro, vocab, **changes):
    """The plan of a step by `zerofleet plan`: {"planned_bytes", "total_bytes"} of the GPU, and "host_bytes"."""
    path = zerofleet.work / "plan.yaml"
    path.write_text(json.dumps({"model": {"preset": model, "vocab": vocab, "context": 1024, **changes},
                                "precision": "bf16", "device": zerofleet.device,
                                "data": {"train": ["none.u32"], "format": "tokens_u32"},
                                "parallel": {"zero_stage": stage}, "batch": {"global_sequences": micro}}))
    memory = json.loads(zerofleet.call("plan", path, "--json"))["rank_memory"]
    return {**memory["gpu"], "host_bytes": memory["host"]["buffers"]}


def batch_that_fills(zerofleet, model, vocab):
    """The number of sequences of 1024 tokens that fit in one pass of stage 0; activations grow in proportion to it."""
    few, more = (planned(zerofleet, model, 0, micro, vocab) for micro in (8, 16))
    each = (more["planned_bytes"] - few["planned_bytes"]) / 8
    room = CARD_SHARE * few["total_bytes"] - few["planned_bytes"]
    sequences = 8 + int(room / each)
    return max(1, sequences // 2 * 2)  # 2 x 1024 rows: whole tiles of a product


def step(zerofleet, arguments):
    model, stage = arguments.words[1], int(arguments.words[2])
    if zerofleet.dry:
        words = ["--preset", "gpt2-tiny", "--context", 32, "--sequences", 2, "--steps", 2, "--workers", 1,
                 "--stage", stage]
        figures = json.loads(zerofleet.call("bench", "step", "--device", zerofleet.device, "--json", *words))["results"][0]
        finish({**figures, "batch": 2})
        return
    # Stage 3 and PyTorch take the batch that was found for stage 0.
    if stage != 0:
        batch = batch_of(arguments.steps, f"step_{model.removeprefix('gpt2-')}_stage0")
    elif model == "gpt2-124m":
        batch = SMALL_MODEL_BATCH
    else:
        batch = batch_that_fills(zerofleet, model, arguments.vocab)
    timed_step(zerofleet, arguments, planned(zerofleet, model, stage, batch, arguments.vocab), batch,
               ["--preset", model, "--stage", stage, "--warm-up", WARM_UP, "--steps", STEPS])


def batch_of(steps, name):
    """The batch that a step took."""
    results = [json.loads(line) for line in pathlib.Path(steps).read_text().splitlines()]
    batches = [result["figures"]["batch"] for result in results if result.get("step") == name and "batch" in result.get("figures", {})]
    if not batches:
        raise CheckFailed(f"the batch of {name} is not known: run that first")
    return batches[-1]


def timed_step(zerofleet, arguments, plan, batch, words):
    words = [*words, "--context", 1024, "--vocab", arguments.vocab, "--sequences", batch, "--workers", 1,
             "--precision", "bf16"]
    figures = json.loads(zerofleet.call("bench", "step", "--device", zerofleet.device, "--json", *words))["results"][0]
    finish({**figures, "batch": batch, "plan_bytes": plan["planned_bytes"],
            "plan_over_driver": plan["planned_bytes"] / figures["memory"]["driver_used_bytes"]})


def largest(zerofleet, arguments):
    """The number of blocks of hidden size 4096 that fit beside one sequence: on the GPU, and on the host with the snapshot of
    a checkpoint."""
    width = {"hidden": 4096, "heads": 32}
    few, more = (planned(zerofleet, "gpt2-1558m", 0, 1, arguments.vocab, layers=layers, **width) for layers in (2, 4))
    each = (more["planned_bytes"] - few["planned_bytes"]) / 2
    layers = 2 + int((CARD_SHARE * few["total_bytes"] - few["planned_bytes"]) / each)
    snapshot_bytes = (more["host_bytes"] - few["host_bytes"]) / 2  # bytes of one block's snapshot
    layers = min(layers, int(HOST_SHARE * arguments.host_gib * 2**30 / snapshot_bytes))
    timed_step(zerofleet, arguments, planned(zerofleet, "gpt2-1558m", 0, 1, arguments.vocab, layers=layers, **width), 1,
               ["--preset", "gpt2-1558m", "--stage", 0, "--warm-up", 1, "--steps", 2, "--set", "model.hidden=4096",
                "--set", "model.heads=32", "--set", f"model.layers={layers}"])


def bench(zerofleet, arguments):
    if arguments.words[0] == "step":
        step(zerofleet, arguments)
    elif arguments.words[0] == "largest":
        largest(zerofleet, arguments)
    else:
        kernel_bench(zerofleet, arguments.words[0])


COMMANDS = {"facts": facts, "first-parity": first_parity, "gtest": gtest, "sanitizer": sanitizer, "stages": stages, "buckets": buckets,
            "tensor-group": tensor_group, "llama": llama, "resume": resume, "recovery": recovery, "offload": offload, "nccl": nccl,
            "against-cpu": against_cpu, "torch-losses": torch_losses, "bench": bench}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--steps", required=True, help="the file of the steps' results")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--host-gib", type=float, default=host_gib(), help="the host's memory")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    zerofleet = Zerofleet(arguments)
    try:
        return COMMANDS[arguments.command](zerofleet, arguments) or 0
    except CheckFailed as failure:
        finish({"why": str(failure)})
        return 1
    finally:
        shutil.rmtree(zerofleet.work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
