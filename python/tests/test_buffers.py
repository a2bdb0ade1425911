"""Buffers that training passes change, with buffers="rank0": every worker has what the first micro-batch of each step makes of
them, in every stage and with any number of workers."""

import os
import signal

import pytest
import torch

import fleet
import models
import zerofleet
from test_train import expect_the_same_in_stages_and_worlds, same
from zerofleet.loaders import seed_all

MODELS = ["batch_normed", "codebook"]


def buffers_of(folder):
    checkpoint = zerofleet.Checkpoint(folder / "checkpoints")
    values = checkpoint.state_dict()
    return {name: values[name] for name in checkpoint.buffers}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_stages_and_worlds_change_no_bit(name, precision, tmp_path):
    if name == "batch_normed" and precision == "bf16":
        pytest.skip("PyTorch has no batch norm of bf16 weights with fp32 statistics")
    expect_the_same_in_stages_and_worlds(name, precision, tmp_path)


def plain_run(name, initial, until):
    """The same steps in plain PyTorch. Every micro-batch of a step begins with the step's buffers, and the first one's are kept."""
    task = getattr(models, name)
    model = zerofleet.load(initial, task.build())
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
                                   {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}],
                                  lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    order = zerofleet._core.sample_order(7, len(task.data), 12 * until)
    losses = []
    for step in range(until):
        before = {n: b.clone() for n, b in model.named_buffers()}
        total = weight = 0.0
        for micro in range(6):
            for n, b in model.named_buffers():
                b.copy_(before[n])
            position = step * 12 + micro * 2
            seed_all(7, position)
            loss, count = task.loss(model.train(), torch.utils.data.default_collate(
                [task.data[i] for i in order[position:position + 2]]))
            loss.backward()
            total, weight = total + float(loss.detach()), weight + float(count)
            if micro == 0:
                after = {n: b.clone() for n, b in model.named_buffers()}
        for n, b in model.named_buffers():
            b.copy_(after[n])
        for p in model.parameters():
            p.grad /= weight
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / weight)
    return losses, model


@pytest.mark.parametrize("name", MODELS)
def test_plain_pytorch_gives_the_same_numbers(name, tmp_path):
    got = fleet.steps(fleet.train(tmp_path, fleet.config(name, tmp_path, reduce={"order": "samples"})))
    losses, model = plain_run(name, tmp_path / "checkpoints" / ".torch" / "step-00000000", fleet.STEPS)
    for (loss, _), want in zip(got, losses):
        assert abs(loss - want) <= 1e-6 * abs(want)
    values = dict(model.named_buffers())
    found = buffers_of(tmp_path)
    assert len(found) == {"batch_normed": 3, "codebook": 4}[name]
    for n, value in found.items():
        assert value.dtype == values[n].dtype and value.shape == values[n].shape
        assert (value.double() - values[n].double()).abs().max() <= 1e-6, n
    counted = "1.num_batches_tracked" if name == "batch_normed" else "seen"
    assert int(found[counted]) == fleet.STEPS
    trained = fleet.weights(tmp_path)
    for n, parameter in model.named_parameters():
        assert (trained[n] - parameter.detach()).abs().max() <= 1e-5, n


def test_an_evaluation_and_an_export_have_them(tmp_path):
    events = fleet.train(tmp_path, fleet.config("batch_normed", tmp_path, evaluate={"every_steps": 4, "batches": 10},
                                                parallel={"zero_stage": 3}))
    evaluated = [e["loss"] for e in events if e["event"] == "evaluate"]
    for dtype, within in (("fp32", 1e-6), ("bf16", 1e-2)):
        done = fleet.command("checkpoint", "export", tmp_path / "checkpoints", tmp_path / dtype, "--dtype", dtype)
        assert done.returncode == 0, done.stderr
        from safetensors.torch import load_file

        exported = load_file(tmp_path / dtype / "model.safetensors")
        model = models.build_batch_normed()
        model.load_state_dict(exported)  # strict: every parameter and every buffer
        assert exported["1.running_var"].dtype == torch.float32 and exported["1.num_batches_tracked"].dtype == torch.int64
        same({n: v for n, v in exported.items() if "running" in n or "num" in n}, buffers_of(tmp_path))
        total = 0.0
        with torch.no_grad():
            for image, label in models.batch_normed.validation:
                total += float(models.class_loss(model.eval(), (image[None], label[None]))[0])
        assert abs(evaluated[-1] - total / 10) <= within


def test_a_checkpoint_is_read_by_another_number_of_workers(tmp_path):
    def settings(folder, stage, workers, steps):
        return fleet.config("batch_normed", folder, reduce={"order": "samples"}, steps=steps,
                            parallel={"zero_stage": stage, "workers": workers})

    want = fleet.steps(fleet.train(tmp_path / "whole", settings(tmp_path / "whole", 2, 2, 6)))
    fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 3, 3, 3))
    assert fleet.steps(fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 1, 2, 6))) == want
    same(fleet.weights(tmp_path / "parts"), fleet.weights(tmp_path / "whole"))


def test_a_worker_killed_changes_no_bit(tmp_path):
    """Also of an average of the weights and of states in host memory."""
    def settings(folder):
        return fleet.config("batch_normed", folder, steps=60, parallel={"zero_stage": 2, "workers": 2},
                            offload={"optimizer": "cpu"}, ema={"decay": 0.9},
                            checkpoint={"dir": str(folder / "checkpoints"), "every_steps": 5})

    want = fleet.train(tmp_path / "calm", settings(tmp_path / "calm"))
    folder = tmp_path / "kill"
    folder.mkdir()
    process = fleet.start(folder, settings(folder))
    while not any(e["event"] == "checkpoint" for e in fleet.events(folder)):
        assert process.poll() is None, process.stderr.read()
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = [int(pid) for pid in file.read().split()]
    ranks = [pid for pid in children if b"worker" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")]
    os.kill(ranks[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert any(e["event"] == "recovery" for e in fleet.events(folder)), err
    assert fleet.steps(fleet.events(folder)) == fleet.steps(want)
    same(fleet.weights(folder), fleet.weights(tmp_path / "calm"))
    average = zerofleet.Checkpoint(folder / "checkpoints").state_dict(ema=True)
    for name, value in buffers_of(folder).items():
        assert torch.equal(average[name], value), name


def test_they_begin_with_the_values_of_a_folder(tmp_path):
    from safetensors.torch import save_file

    model = models.build_batch_normed()
    model[1].running_mean.fill_(7.25)
    model[1].num_batches_tracked.fill_(100)
    state = model.state_dict()
    del state["1.running_var"]  # build's are taken
    save_file(state, tmp_path / "model.safetensors")
    save_file({n: v + 1 for n, v in state.items()}, tmp_path / "model_ema.safetensors")  # an import does not read it either
    os.environ["ZF_TEST_WEIGHTS"] = str(tmp_path)
    try:
        fleet.train(tmp_path / "run", fleet.config("batch_normed_from_folder", tmp_path / "run", steps=1))
    finally:
        del os.environ["ZF_TEST_WEIGHTS"]
    begun = zerofleet.Checkpoint(tmp_path / "run" / "checkpoints" / ".torch" / "step-00000000").state_dict()
    assert torch.equal(begun["1.running_mean"], model[1].running_mean)
    assert torch.equal(begun["1.running_var"], torch.ones(4)) and int(begun["1.num_batches_tracked"]) == 100
    same({n: v for n, v in begun.items() if n in dict(model.named_parameters())},
         {n: p.detach() for n, p in model.named_parameters()})
    assert int(buffers_of(tmp_path / "run")["1.num_batches_tracked"]) == 101


def test_a_loop_of_ones_own_has_them(tmp_path):
    (tmp_path / "loop.py").write_text("""
import sys
import models, zerofleet as zf
run = zf.steps(models.build_batch_normed, data=models.Images(40), config=sys.argv[1], buffers="rank0")
for micro in run:
    with micro:
        micro.backward(*models.class_loss(run.model, micro.batch))
""")
    import json
    import subprocess
    import sys

    settings = fleet.config("batch_normed", tmp_path)
    del settings["model"]
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    done = subprocess.run([sys.executable, str(tmp_path / "loop.py"), str(tmp_path / "run.yaml")], env=fleet.environment(),
                          capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    fleet.train(tmp_path / "other", fleet.config("batch_normed", tmp_path / "other"))
    same(fleet.weights(tmp_path), fleet.weights(tmp_path / "other"))


def test_a_late_update_is_refused(tmp_path):
    refused = fleet.train(tmp_path, fleet.config("batch_normed", tmp_path, offload={
        "optimizer": "cpu", "delayed_update": {"after_steps": 1}}), code=2)
    assert "must be 0 where passes change buffers" in refused
