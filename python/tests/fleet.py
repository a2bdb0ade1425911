"""Runs of real fleets for the tests: `python -m zerofleet train` in a folder of its own, and its report."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS = 4


def environment():
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}


def config(task, folder, **changes):
    """The configuration of a small run of models.TASK, as a dict; ``changes`` replaces whole sections or values."""
    base = {
        "model": {"torch": f"models:{task}"},
        "parallel": {"zero_stage": 2, "workers": 2},
        "precision": "fp32",
        "batch": {"global_sequences": 12, "micro_sequences": 2},
        "optimizer": {"learning_rate": 0.01, "weight_decay": 0.1, "grad_clip": 1.0},
        "schedule": {"decay": "constant", "warmup_steps": 0},
        "steps": STEPS,
        "evaluate": {"every_steps": 0},
        "checkpoint": {"dir": str(folder / "checkpoints")},
        "restart": {"max_per_rank": 1},
        "seed": 7,
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) and isinstance(base.get(key), dict) else value
    return base


def command(*arguments, **options):
    """Runs `python -m zerofleet ARGUMENTS` to its end."""
    return subprocess.run([sys.executable, "-m", "zerofleet", *map(str, arguments)], env=environment(),
                          capture_output=True, text=True, timeout=options.pop("timeout", 400), **options)


def start(folder, settings, *arguments):
    """Starts a run; returns its process."""
    path = folder / "run.yaml"
    path.write_text(json.dumps(settings))
    return subprocess.Popen([sys.executable, "-m", "zerofleet", "train", str(path), "--report",
                             str(folder / "report.jsonl"), *map(str, arguments)], env=environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(folder, settings, *arguments, code=0):
    """Trains to the end; returns the events of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    process = start(folder, settings, *arguments)
    out, err = process.communicate(timeout=400)
    assert process.returncode == code, f"{out}\n{err}"
    return events(folder) if code == 0 else err.strip().splitlines()[-1]


def prepared(folder, settings):
    """The path of the complete configuration of a run that the test starts process by process."""
    from zerofleet import launch, task

    os.environ.pop(task.VARIABLE, None)
    try:
        path = launch.prepare(task.find(settings["model"]["torch"]), json.dumps(settings), "run.yaml", [])
    finally:
        os.environ.pop(task.VARIABLE, None)  # the task's file is this test's
    return path


def _process(*arguments, **variables):
    return subprocess.Popen([sys.executable, "-m", "zerofleet", *map(str, arguments)], env={**environment(), **variables},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def coordinator(path, folder):
    """Starts a coordinator by itself; returns its process and address."""
    process = _process("coordinator", "--config", path, "--listen", "127.0.0.1:0", "--state-dir", folder / "state",
                       "--report", folder / "report.jsonl")
    return process, process.stdout.readline().split()[-1]


def worker(address, **variables):
    return _process("worker", "--coordinator", address, "--device", "cpu", "--threads", 1, "--interface", "lo", "--quiet",
                    **variables)


def await_file(path, seconds=200, process=None):
    """Waits for a file that ends with a newline; the process that writes it must not end before."""
    for _ in range(int(seconds / 0.05)):
        if path.exists() and path.read_text().endswith("\n"):
            return
        assert process is None or process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError(f"{path}: not within {seconds} s")


def events(folder):
    path = folder / "report.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def steps(of):
    """Loss and norm of each step, from the last time that it was done."""
    found = {e["step"]: (e["loss"], e["grad_norm"]) for e in of if e["event"] == "step"}
    return [found[step] for step in sorted(found)]


def weights(folder):
    import zerofleet

    return zerofleet.Checkpoint(folder / "checkpoints").state_dict()
