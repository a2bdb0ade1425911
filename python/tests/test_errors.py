"""Errors are one line that says what is wrong, where, and what to do instead; and nothing is left behind."""

import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import fleet
import zerofleet

LLAMA = "import models, zerofleet as zf, torch\nfrom torch import nn\n"

# Each case: a module's definition, and the line with which its run ends.
CASES = {
    "batch_norm": ("""
        def build():
            return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
        task = zf.Task(build, models.Images(40), models.class_loss)
        """, "of 1 (BatchNorm2d) changes in a training pass, and would differ between workers"),
    "undeclared_statistics": ("""
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(192, 5))
                self.register_buffer("mean", torch.zeros(3))
                self.register_buffer("variance", torch.ones(3))
            def forward(self, x):
                return super().forward(nn.functional.batch_norm(x, self.mean, self.variance, training=True))
        task = zf.Task(Net, models.Images(40), models.class_loss)
        """, "build: buffer mean of the module (Net) changes in a training pass"),
    "buffers_of_another_rank": ("""
        task = zf.Task(models.build_batch_normed, models.Images(40), models.class_loss, buffers="rank1")
        """, 'buffers: must be "rank0" or None, got \'rank1\''),
    "growing_buffer": ("""
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(192, 5))
                self.register_buffer("seen", torch.zeros(1))
            def forward(self, x):
                fake = isinstance(x, torch._subclasses.FakeTensor)
                self.seen = self.seen + 1 if fake else torch.cat([self.seen, self.seen])
                return super().forward(x)
        task = zf.Task(Net, models.Images(40), models.class_loss, buffers="rank0")
        """, "buffer seen of the module (Net) has another shape or type after a pass"),
    "made_in_a_pass": ("""
        class Net(nn.Sequential):
            def forward(self, x):
                self.register_buffer("seen", x.detach().mean())
                return super().forward(x)
        task = zf.Task(lambda: Net(nn.Flatten(), nn.Linear(192, 5)), models.Images(40), models.class_loss, buffers="rank0")
        """, "buffer seen of the module (Net) is made in a pass; make it in build"),
    "views_of_one_memory": ("""
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5))
                both = torch.cat([torch.zeros(4), torch.ones(4)])
                self.register_buffer("mean", both[:4])
                self.register_buffer("variance", both[4:])
            def forward(self, x):
                x = self[0](x)
                return self[2](self[1](nn.functional.batch_norm(x, self.mean, self.variance, training=True)))
        task = zf.Task(Net, models.Images(40), models.class_loss, buffers="rank0")
        """, 'buffer mean of the module (Net) has no memory of its own, which buffers="rank0" needs; make it a copy of buffer variance'),
    "changed_in_the_second_pass": ("""
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(192, 5))
                self.register_buffer("seen", torch.zeros(1))
                self.passes = 0
            def forward(self, x):
                self.passes += 1
                if self.passes == 2:
                    self.seen += 1
                return super().forward(x)
        task = zf.Task(Net, models.Images(40), models.class_loss, buffers="rank0")
        """, "build: buffer seen changes in the second training pass and not in the first"),
    "made_of_parameters": ("""
        def build():
            return nn.Sequential(nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(192, 5)))
        task = zf.Task(build, models.Images(40), models.class_loss, buffers="rank0")
        """, "is on meta: it must not be computed from parameters"),
    "data_dependent": ("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(12, 61)
            def forward(self, x):
                return self.a(x) if x.sum() > 0 else -self.a(x)
        def loss(model, batch):
            return model(batch["input_ids"].float()).sum(), 1
        task = zf.Task(Net, models.Tokens(40), loss)
        """, "a pass depends on the values of tensors"),
    "no_length": ("""
        class Endless:
            def __getitem__(self, i):
                return torch.zeros(3)
        task = zf.Task(models.ConvNet, Endless(), models.class_loss)
        """, "data: Endless has no length: a map-style dataset is needed, which has __len__"),
    "lambda": ("""
        task = zf.Task(models.build_llama, models.Tokens(40), lambda model, batch: models.causal_loss(model, batch))
        """, "loss: a lambda cannot be sent to a worker; define it with def at the top level of a module"),
    "no_pair": ("""
        def loss(model, batch):
            return model(**batch).loss
        task = zf.Task(models.build_llama, models.Tokens(40), loss)
        """, "loss: must return a sum and the weight that it is divided by, got Tensor"),
    "no_gradient": ("""
        def loss(model, batch):
            with torch.no_grad():
                return model(**batch).loss, 1
        task = zf.Task(models.build_llama, models.Tokens(40), loss)
        """, "loss: the sum does not depend on any parameter"),
    "unknown_unit": ("""
        task = zf.Task(models.build_llama, models.Tokens(40), models.causal_loss, units=["LlamaLayer"])
        """, "units: no module is called, or of a class called, LlamaLayer"),
    "raises_in_a_worker": ("""
        import os
        def loss(model, batch):
            if "ZEROFLEET_LAUNCHER_PID" in os.environ:
                raise ValueError("seven is not enough")
            return models.causal_loss(model, batch)
        task = zf.Task(models.build_llama, models.Tokens(40), loss)
        """, "in loss: ValueError: seven is not enough"),
    "raises_at_a_sample": ("""
        class Faulty(models.Tokens):
            def __getitem__(self, i):
                if i == 7:
                    raise KeyError("the seventh")
                return super().__getitem__(i)
        task = zf.Task(models.Branches, Faulty(40), models.branches_loss)
        """, "in __getitem__: KeyError: 'the seventh'"),
    "raises_in_a_loader": ("""
        class Faulty(models.Tokens):
            def __getitem__(self, i):
                if i == 7:
                    raise KeyError("the seventh")
                return super().__getitem__(i)
        task = zf.Task(models.Branches, Faulty(40), models.branches_loss, loader_workers=2)
        """, "in __getitem__: KeyError: 'the seventh'"),
    "kills_its_loader": ("""
        import multiprocessing, os
        class Faulty(models.Tokens):
            def __getitem__(self, i):
                if multiprocessing.parent_process() is not None:
                    os.kill(os.getpid(), 9)
                return super().__getitem__(i)
        task = zf.Task(models.Branches, Faulty(40), models.branches_loss, loader_workers=1)
        """, "data: a loader process was killed by signal 9, twice over the same samples"),
    "fork": ("""
        import os
        def loss(model, batch):
            if "ZEROFLEET_LAUNCHER_PID" in os.environ:
                os.fork()
            return models.causal_loss(model, batch)
        task = zf.Task(models.build_llama, models.Tokens(40), loss)
        """, "in loss: RuntimeError: os.fork: is not supported in a worker, whose engine has threads; start processes with "
             "multiprocessing's spawn or forkserver, or with subprocess"),
    "another_module": ("""
        import os
        def build():
            return nn.Linear(12, 3 if "ZEROFLEET_LAUNCHER_PID" in os.environ else 2)
        def loss(model, batch):
            return model(batch["input_ids"].float()).sum(), 1
        task = zf.Task(build, models.Tokens(40), loss)
        """, "build: parameter weight is [3, 12] here, and [2, 12] where the run was started"),
    "no_task": ("other = 1\n", "model.torch: module case_no_task has no task"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case, tmp_path):
    body, line = CASES[case]
    (tmp_path / f"case_{case}.py").write_text(LLAMA + textwrap.dedent(body))
    settings = fleet.config("x", tmp_path, model={"torch": f"case_{case}:task"})
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    done = subprocess.run([sys.executable, "-m", "zerofleet", "train", "run.yaml"], cwd=tmp_path, capture_output=True,
                          text=True, env=fleet.environment(), timeout=300)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2, done.stderr
    assert last.startswith("zerofleet: ") and line in last, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("change, line", [
    ({"parallel": {"workers": 2, "tensor": 2}}, "parallel.tensor: must be 1 with model.torch, got 2"),
    ({"precision": "fp16"}, "precision: fp16 is not supported with model.torch"),
    ({"device": "cuda"}, "device: "),
    ({"activation": {"checkpointing": "block"}}, "activation.checkpointing: must be none with model.torch"),
    ({"buffers": {"bucket_bytes": 65536}}, "buffers.bucket_bytes: must be 0 with model.torch"),
    ({"data": {"train": ["a.txt"]}}, "data.train: must be left out"),
    ({"model": {"torch": "nowhere:build"}}, "model.torch: no module named nowhere"),
])
def test_configurations(change, line, tmp_path):
    last = fleet.train(tmp_path, fleet.config("llama", tmp_path, **change), code=2)
    assert last.startswith("zerofleet: ") and line in last


def test_train_without_a_main_is_said_to_need_one(tmp_path):
    (tmp_path / "script.py").write_text(LLAMA + textwrap.dedent(f"""
        zf.train(models.build_llama, data=models.Tokens(40), loss=models.causal_loss,
                 config={fleet.config("x", tmp_path, model={})!r})
        """))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True,
                          env=fleet.environment(), timeout=300)
    assert done.returncode == 2
    assert 'call it under if __name__ == "__main__":' in done.stderr.strip().splitlines()[-1]


def test_a_stop_saves_and_says_so(tmp_path):
    process = fleet.start(tmp_path, fleet.config("slow", tmp_path, steps=100000))
    while not any(e["event"] == "step" for e in fleet.events(tmp_path)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert zerofleet.Checkpoint(tmp_path / "checkpoints").step >= 1
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout
    assert left == "", left


def test_a_second_launcher_leaves_a_run_alone(tmp_path):
    process = fleet.start(tmp_path, fleet.config("slow", tmp_path, steps=100000))
    while not any(e["event"] == "step" for e in fleet.events(tmp_path)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    folder = tmp_path / "checkpoints" / ".torch"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    second = fleet.command("train", tmp_path / "run.yaml")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 143, err
    assert second.returncode != 0 and "another run holds" in second.stderr.strip().splitlines()[-1], second.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_numbers_that_are_not_repeatable_are_found(tmp_path):
    (tmp_path / "case_random.py").write_text(LLAMA + textwrap.dedent("""
        import os
        def loss(model, batch):
            total, count = models.causal_loss(model, batch)
            return total * (1 + os.urandom(1)[0] / 1000), count
        task = zf.Task(models.build_llama, models.Tokens(40), loss)
        """))
    (tmp_path / "run.yaml").write_text(json.dumps(fleet.config(
        "x", tmp_path, model={"torch": "case_random:task"}, integrity={"replay_every_steps": 1},
        parallel={"zero_stage": 3, "workers": 2})))
    done = subprocess.run([sys.executable, "-m", "zerofleet", "train", "run.yaml"], cwd=tmp_path, capture_output=True,
                          text=True, env=fleet.environment(), timeout=300)
    assert done.returncode != 0
    assert "micro-batch" in done.stderr and "Traceback" not in done.stderr, done.stderr
