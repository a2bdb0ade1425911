"""Reads any checkpoint without a fleet."""

import json
import os
import struct


def _double(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


class Checkpoint:
    """A committed checkpoint. ``path`` is a step directory, or a run's checkpoint.dir for its newest checkpoint.

    ``step``, ``config`` (a dict), ``tensors`` ({name: shape}), ``buffers`` ({name: dtype and shape} of those tensors that are
    buffers) and ``losses`` ({step: mean loss} of the newest steps, at most 256) are read at once, ``state_dict`` on request;
    every byte that is read is verified. Raises Error (exit_code 3) if anything is damaged.
    """

    def __init__(self, path):
        from zerofleet import _core
        from zerofleet.errors import Error

        self.path = os.fspath(path)
        if not os.path.isdir(self.path):
            raise Error(f"{self.path}: no such directory", 3)
        if not os.path.exists(os.path.join(self.path, "manifest.json")):
            newest = _core.newest_checkpoint(self.path)
            if not newest:
                raise Error(f"{self.path}: no committed checkpoint", 3)
            self.path = newest
        self._manifest = json.loads(_core.read_manifest(self.path))
        self.step = self._manifest["step"]
        self.config = self._manifest["config"]
        receipt = self._manifest.get("receipt") or {"steps": []}
        self.losses = {s["step"]: _double(s["loss_bits"]) for s in receipt["steps"]}
        self._foreign = self.config["model"].get("foreign") or {"units": [], "aliases": []}
        self.buffers = {t["name"]: t["buffer"] for u in self._foreign["units"] for t in u["tensors"] if t.get("buffer")}
        self._stored = {t["name"]: tuple(t["shape"]) for t in self._manifest["tensors"]}
        self.tensors = {name: tuple(self.buffers[name]["shape"]) if name in self.buffers else shape
                        for name, shape in self._stored.items()}

    def state_dict(self, ema=False):
        """The weights, or with ``ema`` their average, as fp32 torch tensors by name, and the buffers of a PyTorch module that its
        passes change, in their own types. What is tied is listed under all its names."""
        import torch

        from zerofleet import _core
        from zerofleet.buffers import from_bytes

        values = {name: torch.empty(shape, dtype=torch.float32) for name, shape in self._stored.items()}
        _core.read_weights(self.path, [value.data_ptr() for value in values.values()], ema)
        for unit in self._foreign["units"]:
            for tensor in unit["tensors"]:
                if not tensor["shape"]:
                    values[tensor["name"]] = values[tensor["name"]].reshape(())
        for name, buffer in self.buffers.items():
            values[name] = from_bytes(values[name], buffer)
        for alias in self._foreign["aliases"]:
            values[alias["name"]] = values[alias["of"]]
        return values


def load(path, model):
    """Copies a checkpoint's weights, and the buffers that passes have changed, into a module, converted to its types. Raises Error
    if names or shapes differ."""
    import torch

    from zerofleet.errors import Error

    values = Checkpoint(path).state_dict()
    buffers = dict(model.named_buffers(remove_duplicate=False))
    parameters = dict(model.named_parameters())
    parameters.update((name, buffer) for name, buffer in buffers.items() if name in values)
    for name, parameter in parameters.items():
        if name not in values:
            raise Error(f"{path}: no weights of {name}", 3)
        if tuple(values[name].shape) != tuple(parameter.shape):
            raise Error(f"{path}: {name} has the shape {list(values[name].shape)}, the module's has "
                        f"{list(parameter.shape)}", 3)
    every = {**buffers, **dict(model.named_parameters(remove_duplicate=False))}
    for name in values:
        if name not in every:
            raise Error(f"{path}: has weights of {name}, which the module has not", 3)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])
    return model
