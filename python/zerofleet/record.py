"""Records a module before any memory exists: its parameters, its units, and the order in which a pass uses them.

Two training passes run under FakeTensorMode: the first finds which parameters get gradients and how much is saved for the
backward, the second is recorded. The order of their events is that of a real pass; their numbers mean nothing.
"""

import collections
import copy
import json
import math
import re

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from zerofleet import buffers
from zerofleet.errors import Error, describe
from zerofleet.hooks import Hooks
from zerofleet.layout import Modes, build_on_meta, layout_of
from zerofleet.loaders import seed_with

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)  # raised while recording


def data_dependent(error):
    """The Error for one of DATA_DEPENDENT."""
    return Error(f"{describe(error)}: a pass depends on the values of tensors: the order of its modules cannot be known "
                 "beforehand")


class _Recorder:
    """A sink that records events."""

    def __init__(self, units):
        self._units = units
        self.events = []
        self.gradients = set()
        self._begun = [False] * len(units)
        self._delivered = [False] * len(units)

    def acquire(self, unit):
        self.events.append(("ACQUIRE", unit))

    def release(self, unit):
        self.events.append(("RELEASE", unit))

    def gradient(self, unit, name, grad):
        self.gradients.add(name)
        if not self._begun[unit]:
            self._begun[unit] = True
            self.events.append(("GRADIENT", unit))

    def deliver(self, unit):
        if not self._delivered[unit]:
            self._delivered[unit] = True
            self.events.append(("DELIVER", unit))

    def finish_gradients(self):
        """Adds events for units that got no gradients: the engine sums and delivers zeros for them at the end."""
        for unit, delivered in enumerate(self._delivered):
            if self._units[unit].frozen:
                continue
            if not self._begun[unit]:
                self.events.append(("GRADIENT", unit))
            if not delivered:
                self.events.append(("DELIVER", unit))


_NO_VALUES = re.compile(r"_like$|::new_|::sym_|^prim::")  # operations on a tensor that need none of its values


class _Reads(TorchDispatchMode):
    """A context in which an operation on the values of a unit that is not held raises Error: a real pass has none there."""

    def __init__(self, layout, hooks):
        super().__init__()
        self._units, self._hooks = layout.units, hooks
        self._owners = {}  # by storage, which views share: a parameter's name, and its unit
        for name, places in layout.places.items():
            module, attribute = places[0]
            self._owners[self._storage_of(module._parameters[attribute])] = name, layout.unit_of[name]

    @staticmethod
    def _storage_of(tensor):
        return tensor.untyped_storage()._cdata

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self._hooks.sink is not None and not self._needs_no_values(function):
            for tensor in pytree.tree_leaves((args, kwargs)):
                if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                    self._check(tensor)
        return function(*args, **kwargs)

    def _needs_no_values(self, function):
        return getattr(function, "is_view", False) or _NO_VALUES.search(function.name()) is not None

    def _check(self, tensor):
        name, unit = self._owners.get(self._storage_of(tensor), (None, None))
        if name is None or self._hooks.holds(unit):
            return
        raise Error(f"units: parameter {name} is used while its unit, {self._units[unit].name}, is released: its values are "
                    "there only within the calls of that module, and in their backward. Choose units so that the module which "
                    "uses the parameter is one, or is in none (units=[]: all parameters are one unit)")


def map_tensors(function, batch):
    """The batch, with function(tensor) in the place of each tensor."""
    def replace(leaf):
        if isinstance(leaf, torch.Tensor):
            return function(leaf)
        if isinstance(leaf, collections.UserDict):  # transformers' BatchEncoding and BatchFeature
            leaf = copy.copy(leaf)
            leaf.data = map_tensors(function, leaf.data)
        return leaf

    return pytree.tree_map(replace, batch)


def to_compute_type(batch, dtype):
    """The batch, with its floating-point tensors converted to the compute type."""
    return map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t, batch)


def collate_of(task):
    """The user's collate function, or PyTorch's."""
    if task.collate is not None:
        return task.collate
    from torch.utils.data import default_collate

    return default_collate


def loss_of(task, model, batch):
    """The user's loss and weight of a batch, whose kinds are checked."""
    result = task.loss(model, batch)
    if not isinstance(result, tuple) or len(result) != 2:
        kind = "Tensor" if isinstance(result, torch.Tensor) else type(result).__name__  # while recording it is a FakeTensor
        raise Error(f"loss: must return a sum and the weight that it is divided by, got {kind}")
    loss, weight = result
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise Error("loss: the sum must be a tensor of one element, which backward() can start from")
    if not hasattr(weight, "__float__") or (isinstance(weight, torch.Tensor) and weight.numel() != 1):
        raise Error("loss: the weight must be a number or a tensor of one element, got "
                    f"{'a tensor of more' if isinstance(weight, torch.Tensor) else type(weight).__name__}")
    return loss, weight


def is_empty(loss, weight):
    """Whether a micro-batch has no targets, as its weight says, and its loss is NaN, as a mean over none and that mean's product
    with their number are. On a GPU it waits for the loss only if the weight is 0."""
    return float(weight) == 0 and math.isnan(float(loss))


def numbers_of(loss, weight):
    """A pass's loss and weight as checked numbers; the loss of an empty micro-batch counts as 0."""
    loss, weight = float(loss), float(weight)
    if not 0 <= weight < float("inf"):
        raise Error(f"loss: the weight must be a finite number from 0, got {weight}")
    return (0.0 if is_empty(loss, weight) else loss), weight


def _to_mode(model, layout, mode, dtype):
    """Replaces parameters and buffers by fake tensors of the mode, parameters in the compute type."""
    with mode:
        for name, places in layout.places.items():
            parameter = nn.Parameter(torch.empty(layout.parameters[name].shape, dtype=dtype),
                                     requires_grad=layout.parameters[name].requires_grad)
            for module, attribute in places:
                module._parameters[attribute] = parameter
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = mode.from_tensor(buffer)


def _saved_bytes(layout):
    """A context in which bytes that are saved for the backward are summed, without parameters, and a function that returns
    the sum."""
    seen = {}
    own = {id(m._parameters[a]) for places in layout.places.values() for m, a in places}

    def pack(tensor):
        base = tensor._base if tensor._base is not None else tensor
        if id(base) not in own and id(tensor) not in own:
            seen[id(tensor.untyped_storage())] = tensor.untyped_storage().nbytes()
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), lambda: sum(seen.values())


def _config_json(model):
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        return ""
    fields = config.to_dict()
    fields["architectures"] = [type(model).__name__]
    return json.dumps(fields, indent=2, default=str, sort_keys=True) + "\n"


class _Pass:
    """A training pass to be recorded: its batch, and what to do before and after it."""

    def __init__(self, modes, hooks, sink, batch):
        self._modes, self._hooks, self._sink, self.batch = modes, hooks, sink, batch

    def enter(self):
        self._modes.train()
        self._hooks.begin(self._sink)

    def leave(self):
        self._hooks.end()


class Recording:
    """The recording of a module. ``micro_batches`` yields two passes, which the caller runs."""

    def __init__(self, task, config):
        self.task = task
        self._dtype = DTYPES.get(config["precision"])
        if self._dtype is None:
            raise Error(f"precision: must be bf16 or fp32 for a PyTorch module, got {config['precision']}")
        self._micro = config["batch"]["micro_sequences"]
        count = len(task.data)
        batch = collate_of(task)([task.data[i % count] for i in range(self._micro)])
        seed_with(config["seed"])
        self.model = build_on_meta(task.build)
        buffers.check_real(self.model)
        self._modes = Modes(self.model)
        self.layout = layout_of(self.model, task.units)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        _to_mode(self.model, self.layout, self._mode, self._dtype)
        with self._mode:
            self._batch = to_compute_type(map_tensors(self._mode.from_tensor, batch), self._dtype)
        self._evaluation = None

    def micro_batches(self):
        """Yields the passes, each in the contexts that record it."""
        with self._mode:
            first = Hooks(self.model, self.layout)
            writes = buffers.Writes(self.model)
            self._found = _Recorder(self.layout.units)
            saving, saved = _saved_bytes(self.layout)
            with saving, writes:
                yield _Pass(self._modes, first, self._found, self._batch)
            first.remove()
            self._saved = int(saved())
            self._assigned = self._find_assigned(writes)
            self.layout.check_trained()
            writes = buffers.Writes(self.model)
            hooks = Hooks(self.model, self.layout, self._found.gradients)
            self._training = _Recorder(self.layout.units)
            with FlopCounterMode(display=False) as flops, _Reads(self.layout, hooks), writes:
                yield _Pass(self._modes, hooks, self._training, self._batch)
            hooks.remove()
            for name in {tensor["name"] for tensor in self._find_assigned(writes)} - {t["name"] for t in self._assigned}:
                raise Error(f"build: buffer {name} changes in the second training pass and not in the first; a buffer that passes "
                            "change must change in each")
            self._training.finish_gradients()
            self._flops = flops.get_total_flops()

    def _find_assigned(self, writes):
        """The tensors of the buffers that a pass has changed."""
        names = writes.names()
        if names and self.task.buffers is None:
            buffers.refuse(self.model, names[0])
        return buffers.tensors_of(self.model, writes.before, names)

    def evaluate(self):
        """Records the order of an evaluation with the task's loss."""
        self._evaluation = _Recorder(self.layout.units)
        with self._mode:
            hooks = Hooks(self.model, self.layout, self._found.gradients)
            self.model.eval()
            hooks.begin(self._evaluation)
            try:
                with torch.no_grad(), _Reads(self.layout, hooks):
                    loss_of(self.task, self.model, self._batch)
            finally:
                hooks.end()
            hooks.remove()

    def foreign(self):
        """The configuration's ``model.foreign``, as a dict for JSON."""
        decay = self.task.decay or (lambda name, parameter: parameter.ndim > 1)
        layout = self.layout

        def tensor(name):
            parameter = layout.parameters[name]
            return {"name": name, "shape": list(parameter.shape),
                    "decay": parameter.requires_grad and bool(decay(name, parameter))}

        def events(recorder, *, trains):
            if recorder is None:
                return []
            unit = len(layout.units)  # of the buffers
            first = [("ACQUIRE", unit), ("RELEASE", unit)] if self._assigned else []
            last = [("GRADIENT", unit), ("DELIVER", unit)] if self._assigned and trains else []
            return [{"what": what, "unit": unit} for what, unit in [*first, *recorder.events, *last]]

        units = [{"name": unit.name, "tensors": [tensor(p) for p in unit.parameters], "frozen": unit.frozen, "module": unit.module}
                 for unit in layout.units]
        if self._assigned:
            units.append({"name": buffers.UNIT, "tensors": self._assigned, "frozen": False, "module": ""})
        first = {id(buffer): name for name, buffer in self.model.named_buffers()}
        tied = {name: first[id(buffer)] for name, buffer in self.model.named_buffers(remove_duplicate=False)
                if name != first[id(buffer)] and first[id(buffer)] in [one["name"] for one in self._assigned]}
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        return {
            "units": units,
            "training": events(self._training, trains=True),
            "evaluation": events(self._evaluation, trains=False),
            "aliases": [{"name": name, "of": of} for name, of in sorted({**layout.aliases, **tied}.items())],
            "flops_per_sample": self._flops / self._micro,
            "saved_bytes": self._saved,
            "config_json": _config_json(self.model),
            "unused": sorted(name for name in layout.trained if name not in self._found.gradients),
            "buffers": sorted(name for name in self.model.state_dict() if name not in parameters),
        }


def describe_module(task, config):
    """Records a task with a loss; returns the configuration's ``model.foreign``."""
    recording = Recording(task, config)
    try:
        for one in recording.micro_batches():
            one.enter()
            try:
                loss, _ = loss_of(task, recording.model, one.batch)
                if not loss.requires_grad:
                    raise Error("loss: the sum does not depend on any parameter; is the module run under "
                                "torch.no_grad()?")
                loss.backward()
            finally:
                one.leave()
        recording.evaluate()
    except DATA_DEPENDENT as error:
        raise data_dependent(error) from None
    return recording.foreign()
