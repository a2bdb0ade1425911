"""Hooks without the engine: the recorded order is the real one, no unit is used while it is released, and loss and
gradients are those of plain PyTorch, to the bit."""

import collections
import dataclasses
import json

import numpy
import pytest
import torch

import models
import zerofleet
from engine import PoisoningEngine
from zerofleet import buffers, launch, passes as passes_module
from zerofleet.errors import Error
from zerofleet.layout import build_on_meta, find_units, layout_of
from zerofleet.record import describe_module, numbers_of, to_compute_type

CONFIG = {"precision": "fp32", "batch": {"micro_sequences": 2}, "reduce": {"order": "ranks"}, "seed": 7}


def prepared(name, precision="fp32", order="ranks", threads=1):
    task = getattr(models, name)
    config = {**CONFIG, "precision": precision, "reduce": {"order": order}, "model": {"torch": f"models:{name}"},
              "data": {"samples": len(task.data), "validation_samples": len(task.validation or [])}}
    foreign = describe_module(task, config)
    config["model"]["foreign"] = foreign
    worker = passes_module.Passes(threads)
    worker.prepare(json.dumps(config), "cpu", 0)
    torch.manual_seed(0)
    plain = task.build()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    values = {n: p.detach().clone() for n, p in plain.named_parameters()}
    there = dict(plain.named_buffers())
    values.update((t["name"], buffers.to_bytes(there[t["name"]]).float()) for t in buffers.tensors_in(foreign))
    for parameter in plain.parameters():  # only parameters: buffers, such as a table of positions, are left alone
        parameter.data = parameter.data.to(dtype)
    return task, foreign, worker, plain, PoisoningEngine(foreign, values, dtype)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [*models.ALL, *models.UNUSUAL, "lora"])
def test_a_pass_is_the_recorded_one(name, precision):
    task, foreign, worker, plain, engine = prepared(name, precision)
    recorded = [(e["what"], e["unit"]) for e in foreign["training"]]
    samples, position = [4, 9], 13
    loss, weight = worker.train(engine, samples, position, False, lambda: None)
    batch = worker.batch(samples, position)
    plain.train()
    expected, expected_weight = task.loss(plain, batch)
    expected.backward()
    assert loss == float(expected.detach()) and weight == float(expected_weight)
    gradients = {n: p.grad for n, p in plain.named_parameters()}
    for n, g in engine.gradients().items():
        want = torch.zeros_like(g) if gradients[n] is None else gradients[n].float()
        assert torch.equal(g, want), n
    if name != "branches":  # `branches` leaves a block out
        unused = {u for u, names in enumerate(engine.units) if set(names) <= set(foreign["unused"])}
        assert engine.events == [e for e in recorded if not (e[1] in unused and e[0] in ("GRADIENT", "DELIVER"))]


@pytest.mark.parametrize("name", ["llama", "t5", "cnn"])
def test_evaluation_is_without_gradients(name):
    task, foreign, worker, plain, engine = prepared(name)
    worker._task = dataclasses.replace(task, validation=task.data)  # the task itself is other tests' too
    loss, weight = worker.evaluate(engine, [1, 2, 3], 1)
    plain.eval()
    with torch.no_grad():
        expected, expected_weight = task.loss(plain, worker.batch([1, 2, 3], 1))
    assert loss == float(expected.detach()) and weight == float(expected_weight)
    assert engine.events == [(e["what"], e["unit"]) for e in foreign["evaluation"]]


def test_dropout_depends_on_seed_and_position_alone():
    _, _, worker, _, engine = prepared("gpt2")
    losses = [worker.train(engine, [4, 9], position, False, lambda: None)[0] for position in (5, 6, 5)]
    assert losses[0] == losses[2] != losses[1]


def test_a_buffer_in_several_places_stays_one(monkeypatch):
    class Elsewhere(passes_module.place_of("cpu", 0).__class__):
        def move(self, batch):
            return batch.clone() if isinstance(batch, torch.Tensor) else batch

    monkeypatch.setattr(passes_module, "place_of", lambda kind, number: Elsewhere())
    _, _, worker, _, _ = prepared("codebook")
    assert worker.model.again.average is worker.model.average


def test_only_the_first_micro_batch_delivers_buffers():
    _, foreign, worker, plain, engine = prepared("codebook")
    for first in (False, True):
        worker.train(engine, [4, 9], 13, first, lambda: None)
        gradients = engine.gradients()
        assert bool((gradients["average"] != 0).any()) == first
        assert worker.model.seen == 1  # each pass begins with the step's values
    plain.train()
    models.class_loss(plain, worker.batch([4, 9], 13))
    for tensor in buffers.tensors_in(foreign):
        made = buffers.from_bytes(gradients[tensor["name"]], tensor["buffer"])
        assert torch.equal(made, dict(plain.named_buffers())[tensor["name"]]), tensor["name"]


def test_a_buffer_that_a_pass_leaves_at_a_parameter_overwrites_nothing():
    _, _, worker, _, engine = prepared("remembering")
    worker.train(engine, [4, 9], 13, True, lambda: None)
    places = {place.data_ptr() for place in engine.places}
    assert worker.model.last.data_ptr() in places
    worker._buffers.load(engine)
    assert worker.model.last.data_ptr() not in places and not bool(worker.model.last.any())


def test_what_build_has_put_into_eval_stays_so():
    _, foreign, worker, plain, engine = prepared("normed")
    before = {n: b.clone() for n, b in worker.model.named_buffers()}
    assert "1.running_mean" in foreign["buffers"]
    loss, _ = worker.train(engine, [4, 9], 0, False, lambda: None)
    assert loss == float(models.class_loss(plain, worker.batch([4, 9], 0))[0])
    for name, buffer in worker.model.named_buffers():
        assert torch.equal(buffer, before[name]), name
    assert worker.model.training and not worker.model[1].training


def test_what_has_no_weight_has_no_loss():
    nan = float("nan")
    assert numbers_of(torch.tensor(nan), torch.tensor(0)) == (0, 0)
    assert numbers_of(2.5, 4) == (2.5, 4)
    assert numbers_of(nan, 4)[0] != numbers_of(nan, 4)[0]
    for weight in (-1, nan, float("inf")):
        with pytest.raises(Error, match="the weight must be a finite number from 0"):
            numbers_of(1, weight)


def penalty_loss(model, batch):
    total, count = models.branches_loss(model, batch)
    return total + sum(p.square().sum() for p in model.parameters()), count


def test_a_parameter_that_is_used_outside_its_unit_is_named():
    task = zerofleet.Task(models.Branches, models.Tokens(40), penalty_loss)
    with pytest.raises(Error, match=r"units: parameter blocks.0.0.weight is used while its unit, blocks.0, is released"):
        describe_module(task, CONFIG)
    task.units = []
    assert [unit["name"] for unit in describe_module(task, CONFIG)["units"]] == ["root"]


def mean_loss(model, batch):
    """A mean over targets, of which there are none, times their number."""
    total, count = models.branches_loss(model, batch)
    return total / (count * 0.0) * 0, 0


def test_a_micro_batch_without_targets_adds_nothing():
    _, _, worker, _, engine = prepared("dropped")
    worker._task.loss, given = mean_loss, worker._task.loss
    try:
        assert worker.train(engine, [4, 9], 13, False, lambda: None) == (0, 0)
    finally:
        worker._task.loss = given
    assert not any(sums.any() for sums in engine.sums)


def test_floating_point_tensors_of_a_batch_become_the_compute_type():
    given = collections.UserDict(pixels=torch.ones(2), ids=torch.arange(2), nested=[torch.ones(2)])
    batch = to_compute_type({"a": given, "b": (torch.ones(2, dtype=torch.float64), "text")}, torch.bfloat16)
    assert [t.dtype for t in (batch["a"]["pixels"], batch["a"]["nested"][0], batch["b"][0])] == [torch.bfloat16] * 3
    assert batch["a"]["ids"].dtype == torch.int64 and batch["b"][1] == "text"
    assert given["pixels"].dtype == torch.float32


class Threads(models.Tokens):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "threads": torch.get_num_threads()}


def test_samples_are_read_with_one_thread():
    _, _, worker, _, engine = prepared("gpt2")
    worker._threads, worker._task.data, given = 2, Threads(40), worker._task.data
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert worker.batch([4, 9], 13)["threads"].tolist() == [1, 1]
        worker.begin(engine)
        assert torch.get_num_threads() == 2
    finally:
        worker.end()
        worker._task.data = given
        torch.set_num_threads(before)


@pytest.mark.parametrize("order, variable, threads", [("ranks", None, 3), ("samples", None, 1), ("samples", "2", 2),
                                                      ("ranks", "2", 2)])
def test_in_the_order_of_samples_threads_do_not_depend_on_the_workers(order, variable, threads, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
        monkeypatch.setattr(torch, "get_num_threads", lambda: int(variable))  # as in a process started with it
    _, _, worker, _, _ = prepared("gpt2", "fp32", order, launch.threads_of(["--threads", "3"]))
    assert dict(worker.facts())["PyTorch's threads"] == str(threads)


class Random(torch.nn.Linear):
    """A product with a table of random numbers."""

    def __init__(self):
        super().__init__(3, 3)
        self.register_buffer("table", torch.from_numpy(numpy.random.rand(3)) + torch.rand(3))


def sum_loss(model, batch):
    return model(batch).sum(), len(batch)


def test_random_buffers_are_the_same_in_every_worker():
    task = zerofleet.Task(Random, torch.ones(4, 3), sum_loss)
    config = {**CONFIG, "data": {"samples": 4, "validation_samples": 0}, "model": {"foreign": describe_module(task, CONFIG)}}
    tables = []
    for _ in range(2):
        worker = passes_module.Passes(1)
        worker.prepare(json.dumps(config), "cpu", 0, task)
        tables.append(worker.model.table)
        numpy.random.rand(), torch.rand(1)
    assert torch.equal(*tables)


class Odd(torch.nn.Module):
    """A parameter of another type."""

    def __init__(self, values, trained):
        super().__init__()
        self.odd = torch.nn.Parameter(values, requires_grad=trained)


class Lazy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = torch.nn.LazyLinear(3)


@pytest.mark.parametrize("build, message", [
    (lambda: Odd(torch.ones(3, dtype=torch.complex64), True), "build: parameter odd is of torch.complex64"),
    (lambda: Odd(torch.ones(3, dtype=torch.int64), False), "build: parameter odd is of torch.int64"),
    (Lazy, "build: parameter weight of LazyLinear has no shape yet"),
])
def test_parameters_that_are_no_real_numbers_are_refused(build, message):
    with pytest.raises(Error, match=message):
        describe_module(zerofleet.Task(build, models.Tokens(40), models.branches_loss), CONFIG)


def freezing_loss(model, batch):
    model.head.requires_grad_(False)
    return models.branches_loss(model, batch)


def several_weights(model, batch):
    return models.branches_loss(model, batch)[0], [3, 4]


def tensor_of_weights(model, batch):
    return models.branches_loss(model, batch)[0], torch.ones(2)


@pytest.mark.parametrize("loss, message", [
    (freezing_loss, "build: requires_grad of parameter head.weight is False in a pass, and was True when build returned"),
    (several_weights, "loss: the weight must be a number or a tensor of one element, got list"),
    (tensor_of_weights, "loss: the weight must be a number or a tensor of one element, got a tensor of more"),
])
def test_a_loss_of_another_kind_is_refused(loss, message):
    with pytest.raises(Error, match=message):
        describe_module(zerofleet.Task(models.Branches, models.Tokens(40), loss), CONFIG)


def test_what_is_trained_does_not_change_within_a_run():
    _, _, worker, _, engine = prepared("dropped")
    worker.model.layers[1].requires_grad_(False)
    with pytest.raises(Error, match="build: requires_grad of parameter layers.1.self_attn.in_proj_weight is False in a pass"):
        worker.train(engine, [4, 9], 13, False, lambda: None)


def test_units_are_classes_or_names():
    model = build_on_meta(models.Branches)
    assert find_units(model, [torch.nn.GELU]) == find_units(model, ["GELU"]) == [f"blocks.{i}.1" for i in range(4)]
    for units in (3, [3], "blocks"):
        with pytest.raises(Error, match="units: must be a list of "):
            zerofleet.Task(models.Branches, models.Tokens(40), models.branches_loss, units=units).check()


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(40))

    def __len__(self):
        return 40


def test_a_dataset_that_can_only_be_iterated_over_is_refused():
    with pytest.raises(Error, match="data: Stream has no __getitem__: a map-style dataset is needed"):
        zerofleet.Task(models.Branches, Stream(), models.branches_loss).check()


def test_what_is_never_called_is_no_unit():
    with torch.device("meta"):
        layout = layout_of(models.Listed(), None)
    assert [unit.name for unit in layout.units] == ["root", *(f"layers.{i}.{j}" for i in range(3) for j in range(2))]


def test_a_unit_by_default_is_a_member_of_a_module_list():
    with torch.device("meta"):
        layout = layout_of(models.build_gpt2(), None)
    assert [unit.name for unit in layout.units] == ["root", *(f"transformer.h.{i}" for i in range(3))]
