"""A worker's passes: run the user's module over the engine's memory.

Python holds no training state: parameters are tensors over the memory into which the engine gathers, and gradients are added
to the engine's sums as they arrive. Recovery therefore has nothing to restore here.
"""

import contextlib
import json
import os

import torch
from torch import nn

from zerofleet import task as tasks
from zerofleet.buffers import Buffers
from zerofleet.errors import Error
from zerofleet.hooks import Hooks
from zerofleet.layout import Modes, build_on_meta, layout_from
from zerofleet.loaders import Loaders, make_batch, seed_all, seed_with
from zerofleet.places import place_of
from zerofleet.record import DTYPES, collate_of, is_empty, loss_of


class _Memory:
    """The sink of real passes: parameters lie where the engine gathers them, and gradients are added where it sums them."""

    def __init__(self, layout, dtype, place):
        self._layout = layout
        self._dtype = dtype
        self._place = place
        self._sizes = []  # by unit: (elements, [(name, offset, shape, elements)])
        for unit in layout.units:
            offset, places = 0, []
            for name in unit.parameters:
                parameter = layout.parameters[name]
                places.append((name, offset, parameter.shape, parameter.numel()))
                offset += parameter.numel()
            self._sizes.append((offset, places))
        self._address = [0] * len(layout.units)
        self._sums = [(0, {})] * len(layout.units)  # by unit: the address, and a tensor for each parameter
        self.engine = None

    def acquire(self, unit):
        address = self.engine.acquire(unit)
        if address != self._address[unit]:  # the memory is a new view's; within a view it never moves
            self._address[unit] = address
            elements, places = self._sizes[unit]
            whole = self._place.tensor_at(address, elements, self._dtype)
            for name, offset, shape, count in places:
                self.of(name).data = whole[offset:offset + count].view(shape)

    def release(self, unit):
        self.engine.release(unit)

    def gradient(self, unit, name, grad):
        address = self.engine.gradient(unit)
        if self._sums[unit][0] != address:
            elements, places = self._sizes[unit]
            whole = self._place.tensor_at(address, elements, torch.float32)
            self._sums[unit] = (address, {n: whole[o:o + c].view(s) for n, o, s, c in places})
        self._sums[unit][1][name].add_(grad)

    def deliver(self, unit):
        self.engine.deliver(unit)

    def of(self, name):
        module, attribute = self._layout.places[name][0]
        return module._parameters[attribute]


class Passes:
    """The methods that the engine calls (python/src/passes.cc)."""

    def __init__(self, threads):
        self._threads = threads  # the number of PyTorch's threads in a pass

    def prepare(self, config_json, device, number, task=None):
        """Builds the module of ``task``, to run on the engine's device of this kind and number; without it, of the task that the
        launcher has sent or the configuration names."""
        config = json.loads(config_json)
        self._place = place_of(device, number)
        self._seed = config["seed"]
        self._dtype = DTYPES[config["precision"]]
        if config["reduce"]["order"] == "samples" and "OMP_NUM_THREADS" not in os.environ:
            # PyTorch's sums depend on this number, and by default it is the cores divided by the workers.
            self._threads = 1
        self._task = task or tasks.open_source(tasks.source_of(config))
        for name, wanted in (("data", config["data"]["samples"]), ("validation", config["data"]["validation_samples"])):
            dataset = getattr(self._task, name)
            length = 0 if dataset is None else tasks.length_of(dataset, name)
            if length != wanted:
                raise Error(f"{name}: has {length} samples here, and {wanted} where the run was started")
        self._collate = collate_of(self._task)
        self._loaders = None
        if task is None and self._task.loader_workers > 0:
            self._loaders = self._start_loaders(config)
        foreign = config["model"]["foreign"]
        seed_with(self._seed)  # for buffers, which every worker makes
        self.model = build_on_meta(self._task.build)
        self._modes = Modes(self.model)
        self._layout = layout = layout_from(self.model, foreign)
        for name, places in layout.places.items():
            one = torch.empty(1, dtype=self._dtype, device=self._place.device)
            parameter = nn.Parameter(one.expand(layout.parameters[name].shape),
                                     requires_grad=layout.parameters[name].requires_grad)
            for module, attribute in places:
                module._parameters[attribute] = parameter
        moved = {}  # by identity: a buffer may be registered in several places
        for module in self.model.modules():
            for name, buffer in module._buffers.items():
                if id(buffer) not in moved:
                    moved[id(buffer)] = self._place.move(buffer)
                module._buffers[name] = moved[id(buffer)]
        self._buffers = Buffers(self.model, foreign, self._dtype, self._place)
        self._memory = _Memory(layout, self._dtype, self._place)
        self._hooks = Hooks(self.model, layout, set(layout.trained) - set(foreign["unused"]))

    def facts(self):
        """What the bits of a pass depend on besides the configuration, as (name, value). All workers must agree on it."""
        return [("PyTorch", torch.__version__), *self._place.facts(), ("PyTorch's threads", str(self._threads))]

    def limit_memory(self, most):
        """Limits the device memory, in bytes, that passes take beside the engine's."""
        self._place.limit_memory(most)

    def _start_loaders(self, config):
        from zerofleet import _core

        count, samples = self._task.loader_workers, config["data"]["samples"]
        return Loaders(tasks.source_of(config), count, self._seed, self._dtype, config["batch"]["global_sequences"],
                       lambda position, many: _core.sample_order(self._seed, samples, many, position))

    def batch(self, samples, position, dataset=None):
        """The batch of these samples, on the CPU. Also seeds all random numbers for the pass over it."""
        if dataset is None and self._loaders is not None:
            batch = self._loaders.batch(samples, position)
        else:
            dataset = self._task.data if dataset is None else dataset
            torch.set_num_threads(1)  # as in a loader process: sums depend on it
            batch = make_batch(dataset, self._collate, samples, self._seed, position, self._dtype)
        seed_all(self._seed, position)
        return batch

    def begin(self, units, first=False):
        """Begins a pass over these units of the engine's; ``first``: a training pass over the global batch's first samples."""
        torch.set_num_threads(self._threads)  # the engine's own products set this thread's number to one
        self.set_modes()
        self._memory.engine, self._first, self._complete = units, first, False
        self._order = contextlib.ExitStack()
        try:
            self._order.enter_context(self._place.in_order_of(units))
            self._buffers.load(units)
            self._hooks.begin(self._memory)
        except BaseException:
            self.end()
            raise

    def move(self, batch):
        """The batch where the pass runs; to be called within the pass."""
        return self._place.move(batch)

    def set_modes(self):
        """Sets all modules to the modes that they have in a training pass."""
        self._modes.train()

    def end(self):
        """Ends the pass, whether it has completed or not. What a training pass has made of the module's buffers is delivered."""
        try:
            self._hooks.end()
            if self._complete:
                self._buffers.deliver(self._memory.engine, self._first)
        finally:
            self._memory.engine = None
            self._order.close()

    def train(self, units, samples, position, first, on_backward):
        """Runs forward and backward of one micro-batch; returns its loss and weight (Cpu.result_of)."""
        batch = self.batch(samples, position)
        self.begin(units, first)
        try:
            loss, weight = loss_of(self._task, self.model, self.move(batch))
            on_backward()
            self.backward(loss, weight)
            return self.result_of(loss.detach(), weight)
        finally:
            self.end()

    def result_of(self, loss, weight):
        """A pass's loss and weight, as the engine takes them; to be called within the pass."""
        return self._place.result_of(loss, weight)

    def backward(self, loss, weight):
        """Computes the gradients of a micro-batch's loss, unless it has no targets and its mean therefore no value: the
        gradients of a quotient by 0 are NaN."""
        self._layout.check_trained()
        if not is_empty(loss, weight):
            loss.backward()
        self._complete = True

    def evaluate(self, units, samples, position):
        """The loss and weight of one batch of the validation set."""
        batch = self.batch(samples, position, self._task.validation)
        self.begin(units)
        self.model.eval()
        try:
            with torch.no_grad():
                loss, weight = loss_of(self._task, self.model, self.move(batch))
            return self.result_of(loss, weight)
        finally:
            self.end()

