"""Real fleets: all stages and world sizes give the same bits, and the numbers of plain PyTorch.

ZF_TORCH_FULL=1 runs every combination of model, stage, precision and number of workers; without it each value runs once.
"""

import json
import os
import signal
import time

import pytest
import torch

import fleet
import models
import zerofleet
from zerofleet.loaders import seed_all

FULL = os.environ.get("ZF_TORCH_FULL") == "1"
MODELS = [*models.ALL, "lora"]


def same(got, want):
    assert got.keys() == want.keys()
    for name in want:
        assert torch.equal(got[name], want[name]), name


def expect_the_same_in_stages_and_worlds(name, precision, tmp_path):
    runs = [(stage, workers) for stage in range(4) for workers in (1, 2, 3)] if FULL else [(0, 1), (3, 2), (2, 3), (1, 2)]
    first = None
    for stage, workers in runs:
        folder = tmp_path / f"{stage}-{workers}"
        got = fleet.steps(fleet.train(folder, fleet.config(
            name, folder, precision=precision, parallel={"zero_stage": stage, "workers": workers},
            reduce={"order": "samples"})))
        values = fleet.weights(folder)
        if first is None:
            first = got, values
            assert len(got) == fleet.STEPS and got[-1] != got[0]
            continue
        assert got == first[0], (stage, workers)
        same(values, first[1])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_stages_and_worlds_change_no_bit(name, precision, tmp_path):
    expect_the_same_in_stages_and_worlds(name, precision, tmp_path)


@pytest.mark.parametrize("name", MODELS if FULL else ["llama", "qwen2"])
def test_stages_change_no_bit_in_the_order_of_ranks(name, tmp_path):
    runs = []
    for stage in range(4):
        folder = tmp_path / str(stage)
        runs.append((fleet.steps(fleet.train(folder, fleet.config(name, folder, batch={"micro_sequences": 6}, parallel={
            "zero_stage": stage, "workers": 2}))), fleet.weights(folder)))
    for got, values in runs[1:]:
        assert got == runs[0][0]
        same(values, runs[0][1])


def plain_run(name, initial):
    """The same steps in plain PyTorch: AdamW over parameter groups, clipping, micro-batches of 2 in their order."""
    task = getattr(models, name)
    model = task.build()
    zerofleet.load(initial, model)
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for _, p in trained if p.ndim > 1], "weight_decay": 0.1},
                                   {"params": [p for _, p in trained if p.ndim <= 1], "weight_decay": 0.0}],
                                  lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    collate = torch.utils.data.default_collate
    order = zerofleet._core.sample_order(7, len(task.data), 12 * fleet.STEPS)
    losses = []
    for step in range(fleet.STEPS):
        total = weight = 0.0
        for micro in range(6):
            position = step * 12 + micro * 2
            seed_all(7, position)
            model.train()
            loss, count = task.loss(model, collate([task.data[i] for i in order[position:position + 2]]))
            loss.backward()
            total, weight = total + float(loss.detach()), weight + float(count)
        for _, p in trained:
            if p.grad is not None:
                p.grad /= weight
            else:
                p.grad = torch.zeros_like(p)
        torch.nn.utils.clip_grad_norm_([p for _, p in trained], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / weight)
    return losses, {n: p.detach() for n, p in trained}


@pytest.mark.parametrize("name", MODELS)
def test_plain_pytorch_gives_the_same_numbers(name, tmp_path):
    got = fleet.steps(fleet.train(tmp_path, fleet.config(name, tmp_path, reduce={"order": "samples"})))
    losses, values = plain_run(name, tmp_path / "checkpoints" / ".torch" / "step-00000000")
    for (loss, _), want in zip(got, losses):
        assert abs(loss - want) <= 1e-6 * abs(want)
    trained = fleet.weights(tmp_path)
    for parameter, want in values.items():
        assert (trained[parameter] - want).abs().max() <= 1e-5, parameter


def test_evaluation_has_the_loss_of_the_validation_set(tmp_path):
    settings = fleet.config("llama", tmp_path, evaluate={"every_steps": 2, "batches": 10}, parallel={"zero_stage": 3,
                                                                                                    "workers": 2})
    evaluated = [e for e in fleet.train(tmp_path, settings) if e["event"] == "evaluate"]
    assert [e["step"] for e in evaluated] == [2, 4]
    model = zerofleet.load(tmp_path / "checkpoints", models.build_llama()).eval()
    total = weight = 0
    with torch.no_grad():
        for i in range(len(models.llama.validation)):
            loss, count = models.causal_loss(model, torch.utils.data.default_collate([models.llama.validation[i]]))
            total, weight = total + float(loss), weight + float(count)
    assert abs(evaluated[-1]["loss"] - total / weight) < 1e-5


def test_a_checkpoint_is_read_by_any_number_of_workers(tmp_path):
    def settings(folder, stage, workers, steps):
        return fleet.config("gpt2", folder, reduce={"order": "samples"}, steps=steps,
                            parallel={"zero_stage": stage, "workers": workers})

    want = fleet.steps(fleet.train(tmp_path / "whole", settings(tmp_path / "whole", 2, 2, 6)))
    fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 3, 3, 3))
    assert fleet.steps(fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 1, 2, 6))) == want
    same(fleet.weights(tmp_path / "parts"), fleet.weights(tmp_path / "whole"))


@pytest.mark.parametrize("name", ["gpt2", "lora"])
def test_a_run_goes_on_from_a_checkpoint_of_another_directory(name, tmp_path):
    want = fleet.steps(fleet.train(tmp_path / "whole", fleet.config(name, tmp_path / "whole", checkpoint={
        "dir": str(tmp_path / "whole" / "checkpoints"), "every_steps": 2})))
    half = tmp_path / "whole" / "checkpoints" / "step-00000002"
    again = fleet.train(tmp_path / "other", fleet.config(name, tmp_path / "other"), "--resume", half)
    assert [e["resumed_from"] for e in again if e["event"] == "start"] == [2]
    assert fleet.steps(again) == want[2:]
    same(fleet.weights(tmp_path / "other"), fleet.weights(tmp_path / "whole"))


def test_a_checkpoint_of_four_workers_is_read_by_three(tmp_path):
    def settings(folder, stage, workers, steps):
        return fleet.config("t5", folder, reduce={"order": "samples"}, steps=steps, batch={"micro_sequences": 1},
                            parallel={"zero_stage": stage, "workers": workers})

    want = fleet.steps(fleet.train(tmp_path / "whole", settings(tmp_path / "whole", 0, 1, 4)))
    fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 3, 4, 2))
    assert len(list((tmp_path / "parts" / "checkpoints" / "step-00000002").glob("rank-*.safetensors"))) == 4
    again = fleet.train(tmp_path / "parts", settings(tmp_path / "parts", 3, 3, 4))
    assert [e["world_size"] for e in again if e["event"] == "start"] == [4, 3]
    assert fleet.steps(again) == want
    same(fleet.weights(tmp_path / "parts"), fleet.weights(tmp_path / "whole"))


def test_a_view_that_shrinks_changes_no_bit(tmp_path):
    """Processes are started one by one, so that nobody replaces the worker that is lost."""
    def settings(folder, workers, form_seconds=300):
        return fleet.config("slow", folder, steps=8, reduce={"order": "samples"}, batch={"micro_sequences": 1},
                            parallel={"zero_stage": 3, "workers": workers},
                            checkpoint={"dir": str(folder / "checkpoints"), "every_steps": 2},
                            restart={"min_workers": 2, "form_timeout_seconds": form_seconds})

    begun = time.monotonic()
    want = fleet.train(tmp_path / "calm", settings(tmp_path / "calm", 2) | {"restart": {}})
    # Long enough for three workers to start on a slow machine; the fleet also waits this long for the lost worker.
    form_seconds = int(max(20, 2 * (time.monotonic() - begun)))
    folder = tmp_path / "shrinks"
    folder.mkdir()
    mark = folder / "backward"
    path = fleet.prepared(folder, settings(folder, 3, form_seconds))
    coordinator, address = fleet.coordinator(path, folder)
    workers = [fleet.worker(address, ZF_TEST_MARK=str(mark)) for _ in range(3)]
    try:
        fleet.await_file(mark, process=coordinator)
        os.kill(int(mark.read_text()), signal.SIGKILL)  # in the middle of backward
        _, err = coordinator.communicate(timeout=300 + 2 * form_seconds)
        codes = sorted(worker.wait(timeout=60) for worker in workers)
    finally:
        for process in [coordinator, *workers]:
            if process.poll() is None:
                process.kill()
            process.communicate()
    assert coordinator.returncode == 0 and codes == [-signal.SIGKILL, 0, 0], err
    assert "going on with 2 of 3 workers" in err
    assert fleet.steps(fleet.events(folder)) == fleet.steps(want)
    same(fleet.weights(folder), fleet.weights(tmp_path / "calm"))


def test_epochs_are_of_the_dataset(tmp_path):
    settings = fleet.config("llama", tmp_path, epochs=1.5)
    del settings["steps"]
    settings["evaluate"] = {"every_steps": 0}
    got = fleet.steps(fleet.train(tmp_path, settings, "--set", "batch.global_sequences=8"))
    assert len(got) == 8  # 8 steps of 8 of the 60 samples


def test_a_trace_has_every_ranks_steps(tmp_path):
    trace = tmp_path / "trace.json"
    fleet.train(tmp_path, fleet.config("llama", tmp_path, parallel={"zero_stage": 3, "workers": 2}), "--trace", trace,
                "--trace-steps", "2-3")
    traced = json.loads(trace.read_text())["traceEvents"]
    names = {e["name"] for e in traced}
    assert {e["pid"] for e in traced} == {0, 1}
    assert any("forward" in n for n in names) and any("backward" in n for n in names), sorted(names)
    assert any("all_gather" in n for n in names), sorted(names)


@pytest.mark.parametrize("stage", [1, 3] if FULL else [3])
def test_a_worker_killed_in_backward_changes_no_bit(stage, tmp_path):
    def settings(folder):
        return fleet.config("slow", folder, steps=8, parallel={"zero_stage": stage, "workers": 2},
                            checkpoint={"dir": str(folder / "checkpoints"), "every_steps": 2})

    (tmp_path / "kill").mkdir()
    want = fleet.train(tmp_path / "calm", settings(tmp_path / "calm"))
    mark = tmp_path / "kill" / "backward"
    os.environ["ZF_TEST_MARK"] = str(mark)
    try:
        process = fleet.start(tmp_path / "kill", settings(tmp_path / "kill"))
        # The slow model's backward writes its process's id at the fifth step, and waits there.
        fleet.await_file(mark)
        os.kill(int(mark.read_text()), signal.SIGKILL)
        _, err = process.communicate(timeout=400)
    finally:
        del os.environ["ZF_TEST_MARK"]
    assert process.returncode == 0, err
    got = fleet.events(tmp_path / "kill")
    assert any(e["event"] == "recovery" for e in got)
    assert fleet.steps(got) == fleet.steps(want)
    same(fleet.weights(tmp_path / "kill"), fleet.weights(tmp_path / "calm"))


@pytest.mark.parametrize("stage", [0, 3])
def test_frozen_parameters_have_no_states(stage, tmp_path):
    ends = [e for e in fleet.train(tmp_path, fleet.config("lora", tmp_path, precision="bf16",
                                                          parallel={"zero_stage": stage, "workers": 1}))
            if e["event"] == "end"]
    folder = tmp_path / "checkpoints"
    before = zerofleet.Checkpoint(folder / ".torch" / "step-00000000").state_dict()
    after = fleet.weights(tmp_path)
    assert after.keys() == before.keys()
    adapters = {n for n in after if "lora_" in n}
    for name in after.keys() - adapters:
        assert torch.equal(after[name], before[name]), name
    assert any(not torch.equal(after[name], before[name]) for name in adapters)
    memory = ends[0]["ranks"][0]["memory"]["device"]
    whole, trained = sum(v.numel() for v in after.values()), sum(after[n].numel() for n in adapters)
    padding = 32 * 8  # elements: two kinds of units (trained, frozen) for each of three layers and for the root
    assert 2 * whole <= memory["parameters"]["peak"] <= 2 * (whole + padding)
    assert 12 * trained <= memory["optimizer"]["peak"] <= 12 * (trained + padding)
    written = sum(f.stat().st_size for f in folder.glob(f"step-{fleet.STEPS:08d}/*.safetensors"))
    assert written <= 12 * (trained + padding) + 4096


def test_adapters_go_around_the_weights_of_a_folder(tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(99)
    given = {n: p.detach().clone() for n, p in models.build_llama().named_parameters()}
    save_file(given, tmp_path / "model.safetensors")
    os.environ["ZF_TEST_WEIGHTS"] = str(tmp_path)
    try:
        fleet.train(tmp_path / "run", fleet.config("lora_from_folder", tmp_path / "run", steps=1))
    finally:
        del os.environ["ZF_TEST_WEIGHTS"]
    values = fleet.weights(tmp_path / "run")
    for name, value in given.items():
        wrapped = "base_model.model." + name
        layered = wrapped.replace("_proj.weight", "_proj.base_layer.weight")
        assert torch.equal(values[wrapped if wrapped in values else layered], value), name


def test_a_launcher_killed_changes_no_bit(tmp_path):
    def settings(folder):
        return fleet.config("gpt2", folder, steps=8, parallel={"zero_stage": 3, "workers": 2},
                            checkpoint={"dir": str(folder / "checkpoints"), "every_steps": 2})

    want = fleet.train(tmp_path / "calm", settings(tmp_path / "calm"))
    (tmp_path / "kill").mkdir()
    process = fleet.start(tmp_path / "kill", settings(tmp_path / "kill"))
    while not any(e["event"] == "checkpoint" for e in fleet.events(tmp_path / "kill")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=100)
    again = fleet.train(tmp_path / "kill", settings(tmp_path / "kill"))
    assert any(e["event"] == "start" and e["resumed_from"] for e in again)
    assert fleet.steps(again) == fleet.steps(want)
    same(fleet.weights(tmp_path / "kill"), fleet.weights(tmp_path / "calm"))


def test_an_export_is_read_by_from_pretrained(tmp_path):
    import transformers as tf

    for name, build in (("llama", models.build_llama), ("gpt2", models.build_gpt2), ("qwen2", models.build_qwen2)):
        folder = tmp_path / name
        fleet.train(folder, fleet.config(name, folder))
        done = fleet.command("checkpoint", "export", folder / "checkpoints", folder / "hf")
        assert done.returncode == 0, done.stderr
        exported = tf.AutoModelForCausalLM.from_pretrained(folder / "hf", attn_implementation="eager").eval()
        ours = build()
        ours.load_state_dict(fleet.weights(folder), strict=False)
        ids = torch.arange(10)[None] % models.VOCAB
        with torch.no_grad():
            assert torch.equal(exported(ids).logits, zerofleet.load(folder / "checkpoints", build()).eval()(ids).logits)
            assert torch.equal(exported(ids).logits, ours.eval()(ids).logits)


def test_weights_of_a_folder_are_what_a_run_begins_with(tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(99)
    given = {n: p.detach().clone() for n, p in models.build_llama().named_parameters()}
    save_file(given, tmp_path / "model.safetensors")
    os.environ["ZF_TEST_WEIGHTS"] = str(tmp_path)
    try:
        fleet.train(tmp_path / "run", fleet.config("llama_from_folder", tmp_path / "run", steps=1))
    finally:
        del os.environ["ZF_TEST_WEIGHTS"]
    same(zerofleet.Checkpoint(tmp_path / "run/checkpoints/.torch/step-00000000").state_dict(), given)


def test_offload_changes_no_bit(tmp_path):
    calm = fleet.config("llama", tmp_path / "a", parallel={"zero_stage": 3, "workers": 2})
    want = fleet.steps(fleet.train(tmp_path / "a", calm))
    moved = fleet.config("llama", tmp_path / "b", parallel={"zero_stage": 3, "workers": 2},
                         offload={"optimizer": "cpu", "parameters": "cpu"})
    assert fleet.steps(fleet.train(tmp_path / "b", moved)) == want
    same(fleet.weights(tmp_path / "b"), fleet.weights(tmp_path / "a"))


def test_offload_trains_what_the_device_has_no_room_for(tmp_path):
    """With half the memory that a run without offload takes: such a run is refused, and one with offload gives the same bits."""
    parallel = {"zero_stage": 3, "workers": 2}
    want = fleet.train(tmp_path / "a", fleet.config("large", tmp_path / "a", parallel=parallel))
    offload = {"optimizer": "cpu", "parameters": "cpu"}
    device = want[-1]["ranks"][0]["reserved_bytes"]["device"]
    limit = {"device_limit": f"{device // 2048}KiB"}
    states = 16 * sum(v.numel() for v in fleet.weights(tmp_path / "a").values()) // 2
    refused = fleet.train(tmp_path / "b", fleet.config("large", tmp_path / "b", parallel=parallel, memory=limit), code=2)
    assert "memory.device_limit" in refused, refused
    got = fleet.train(tmp_path / "c", fleet.config("large", tmp_path / "c", parallel=parallel, memory=limit,
                                                   offload=offload))
    assert got[-1]["ranks"][0]["reserved_bytes"]["device"] <= device // 2 < states
    assert fleet.steps(got) == fleet.steps(want)
    same(fleet.weights(tmp_path / "c"), fleet.weights(tmp_path / "a"))


def test_processes_that_read_ahead_change_no_bit(tmp_path):
    """Samples that draw random numbers are the same whether the worker reads them itself or its loader processes do."""
    want = fleet.steps(fleet.train(tmp_path / "a", fleet.config("noisy", tmp_path / "a")))
    readers = tmp_path / "readers"
    readers.mkdir()
    os.environ["ZF_TEST_READERS"] = str(readers)
    try:
        got = fleet.train(tmp_path / "b", fleet.config("noisy_ahead", tmp_path / "b"))
    finally:
        del os.environ["ZF_TEST_READERS"]
    assert fleet.steps(got) == want
    same(fleet.weights(tmp_path / "b"), fleet.weights(tmp_path / "a"))
    pids = [int(entry.name) for entry in readers.iterdir()]
    assert len(pids) == 4, pids  # two loaders for each worker, and no worker itself
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_a_fleet_is_started_by_hand(tmp_path):
    """`prepare` writes a configuration for processes that are started by other means."""
    settings = fleet.config("dropped", tmp_path)
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    done = fleet.command("prepare", tmp_path / "run.yaml")
    assert done.returncode == 0, done.stderr
    coordinator, address = fleet.coordinator(done.stdout.strip(), tmp_path)
    workers = [fleet.worker(address) for _ in range(2)]
    try:
        _, err = coordinator.communicate(timeout=300)
        codes = [worker.wait(timeout=60) for worker in workers]
    finally:
        for process in [coordinator, *workers]:
            if process.poll() is None:
                process.kill()
            process.communicate()
    assert coordinator.returncode == 0 and codes == [0, 0], err
    want = fleet.steps(fleet.train(tmp_path / "launched", fleet.config("dropped", tmp_path / "launched")))
    assert fleet.steps(fleet.events(tmp_path)) == want
