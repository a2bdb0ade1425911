"""Buffers of a module: those that a training pass changes, such as BatchNorm's running statistics, and how all workers come
to have the same.

With ``buffers="rank0"`` they are tensors of the engine's, in a unit of their own behind all others, an element for each byte
(worker/model/foreign.h). Every micro-batch of a step begins with the same values. What the first one of the global batch, which
rank 0 computes, leaves in them are the values of the next step; what the others leave is dropped.
"""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from zerofleet.errors import Error

UNIT = "(buffers)"  # the unit's name, which is no module's
_TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
          torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
# Operations that write to statistics, in training where they have an argument of that name, and do not declare it.
_UNDECLARED = {f"aten::{name}" for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats",
                                            "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts")}
_NAMED = {name: dtype for dtype, name in _TYPES.items()}


def _versions(model):
    return {name: (id(b), b._version) for name, b in model.named_buffers()}


class Writes(TorchDispatchMode):
    """A context that notes which of a module's buffers are written to, replaced, made or removed. ``before`` has, by name, how they
    were: a tensor of the kind and, of several buffers in one memory, the names of the others."""

    def __init__(self, model):
        super().__init__()
        self._model = model
        self._versions = _versions(model)
        self._names = {}  # by storage, which views share
        self.before = {}
        for name, buffer in model.named_buffers():
            if buffer.layout == torch.strided:
                self._names.setdefault(buffer.untyped_storage()._cdata, []).append(name)
        for name, buffer in model.named_buffers():
            sharing = self._names[buffer.untyped_storage()._cdata] if buffer.layout == torch.strided else []
            self.before[name] = buffer, [other for other in sharing if other != name]
        self._written = set()

    def names(self):
        """The names of the buffers that are not as they were."""
        now = _versions(self._model)
        changed = [name for name in {**self._versions, **now} if self._versions.get(name) != now.get(name)]
        return [*changed, *sorted(self._written - set(changed))]

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = {argument.name: value for argument, value in zip(function._schema.arguments, args)} | kwargs
        for argument in function._schema.arguments:
            declared = argument.alias_info is not None and argument.alias_info.is_write
            if declared or (argument.name in ("running_mean", "running_var") and function.name() in _UNDECLARED
                            and given.get("training", True)):
                self._note(given.get(argument.name))
        return function(*args, **kwargs)

    def _note(self, value):
        for tensor in pytree.tree_leaves(value):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self._written.update(self._names.get(tensor.untyped_storage()._cdata, ()))


def _where(model, name):
    owner = name.rpartition(".")[0]
    kind = type(model.get_submodule(owner) if owner else model).__name__
    return f"buffer {name} of {owner or 'the module'} ({kind})"


def refuse(model, name):
    """Raises Error for a buffer that a pass changes."""
    raise Error(f"build: {_where(model, name)} changes in a training pass, and would differ between workers; put the module into "
                'eval(), use a layer without running statistics, or take those of rank 0 by buffers="rank0"')


def check_real(model):
    """Raises Error if a buffer has no values: ``build`` has computed it from parameters, which have none."""
    for name, buffer in model.named_buffers():
        if buffer.device.type == "meta":
            raise Error(f"build: {_where(model, name)} is on meta: it must not be computed from parameters, which have no values "
                        "while the module is built")


def tensors_of(model, before, names):
    """The tensors of the buffers ``names``, which a pass has changed, as a unit of ``model.foreign`` has them: the widest
    elements first, so that each buffer's bytes are aligned. ``before`` is that of Writes."""
    found = []
    now = dict(model.named_buffers())
    for name in [name for name in before if name in names]:
        was, sharing = before[name]
        if was.dtype not in _TYPES or was.numel() == 0 or was.layout != torch.strided:
            raise Error(f'build: {_where(model, name)} is of a kind ({was.dtype}) that buffers="rank0" cannot hold')
        if sharing or not was.is_contiguous():
            raise Error(f'build: {_where(model, name)} has no memory of its own, which buffers="rank0" needs; make it a copy of '
                        f"{'buffer ' + sharing[0] if sharing else 'what it is a view of'}")
        kind = {"dtype": _TYPES[was.dtype], "shape": list(was.shape)}
        if not _is(now.get(name), kind):
            raise Error(f"build: {_where(model, name)} is removed in a pass, or has another shape or type after it")
        found.append({"name": name, "shape": [was.numel() * was.element_size()], "decay": False, "buffer": kind})
    made = sorted(set(names) - {tensor["name"] for tensor in found})
    if made:
        raise Error(f'build: {_where(model, made[0])} is made in a pass; make it in build, so that buffers="rank0" can hold it')
    return sorted(found, key=lambda tensor: -_NAMED[tensor["buffer"]["dtype"]].itemsize)


def tensors_in(foreign):
    """The tensors of ``model.foreign`` that are buffers."""
    return [tensor for unit in foreign["units"] for tensor in unit["tensors"] if tensor.get("buffer")]


def to_bytes(buffer):
    """A buffer's bytes, as a tensor of one dimension."""
    return buffer.detach().contiguous().reshape(-1).view(torch.uint8)


def from_bytes(values, buffer):
    """The tensor of the kind ``buffer``, as ``model.foreign`` has it, whose bytes these are."""
    return values.to(torch.uint8).view(_NAMED[buffer["dtype"]]).view(tuple(buffer["shape"]))


def _is(tensor, buffer):
    """Whether a tensor is of the kind ``buffer``."""
    return tensor is not None and _TYPES.get(tensor.dtype) == buffer["dtype"] and list(tensor.shape) == buffer["shape"]


class Buffers:
    """The buffers of a worker's module over the engine's memory."""

    def __init__(self, model, foreign, dtype, place):
        self._model = model
        self._dtype, self._place = dtype, place
        self._tensors = tensors_in(foreign)
        self._unit = len(foreign["units"]) - 1
        self._own = []  # by tensor: the buffer's own memory, and every (module, attribute) where it is registered
        for tensor in self._tensors:
            owner, _, attribute = tensor["name"].rpartition(".")
            own = model.get_submodule(owner)._buffers.get(attribute)
            if not _is(own, tensor["buffer"]):
                raise Error(f"build: buffer {tensor['name']} is not the one here that it is where the run was started: build must "
                            "make the same module everywhere")
            places = [(module, name) for module in model.modules() for name, buffer in module._buffers.items() if buffer is own]
            self._own.append((own, places))
        self._elements = sum(tensor["shape"][0] for tensor in self._tensors)

    def _pieces(self, whole):
        offset = 0
        for tensor, (own, places) in zip(self._tensors, self._own):
            count = tensor["shape"][0]
            yield tensor, own, places, whole[offset:offset + count]
            offset += count

    def load(self, engine):
        """Gives the module's buffers the values of the step, in their own memory: a pass may have left another tensor in their
        place, even a parameter's."""
        if not self._tensors:
            return
        whole = self._place.tensor_at(engine.acquire(self._unit), self._elements, self._dtype).to(torch.uint8)
        engine.release(self._unit)
        with torch.no_grad():
            for tensor, own, places, values in self._pieces(whole):
                own.copy_(from_bytes(values, tensor["buffer"]))
                for module, attribute in places:
                    module._buffers[attribute] = own

    def deliver(self, engine, first):
        """Delivers what a training pass has made of them; ``first``: they are the next step's values."""
        if not self._tensors:
            return
        sums = self._place.tensor_at(engine.gradient(self._unit), self._elements, torch.float32)
        for tensor, _, places, values in self._pieces(sums):
            module, attribute = places[0]
            buffer = module._buffers.get(attribute)
            if not _is(buffer, tensor["buffer"]):
                raise Error(f"build: {_where(self._model, tensor['name'])} has another shape or type after a pass")
            if first:
                values.add_(to_bytes(buffer))
        engine.deliver(self._unit)
