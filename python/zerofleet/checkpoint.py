"""Reads any checkpoint without a fleet."""

import json
import os
import struct


def _double(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


class Checkpoint:
    """A committed checkpoint. ``path`` is a step directory, or a run's checkpoint.dir for its newest checkpoint.

    ``step``, ``config`` (a dict), ``tensors`` ({name: shape}) and ``losses`` ({step: mean loss} of the newest steps, at most
    256) are read at once, ``state_dict`` on request; every byte that is read is verified. Raises Error (exit_code 3) if
    anything is damaged.
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
        self.tensors = {t["name"]: tuple(t["shape"]) for t in self._manifest["tensors"]}

    def state_dict(self, ema=False):
        """The weights, or with ``ema`` their average, as fp32 torch tensors by name. Tied weights of a PyTorch module
        are listed under all their names."""
        import torch

        from zerofleet import _core

        values = {name: torch.empty(shape, dtype=torch.float32) for name, shape in self.tensors.items()}
        _core.read_weights(self.path, [value.data_ptr() for value in values.values()], ema)
        foreign = self.config["model"].get("foreign") or {"units": [], "aliases": []}
        for unit in foreign["units"]:
            for tensor in unit["tensors"]:
                if not tensor["shape"]:
                    values[tensor["name"]] = values[tensor["name"]].reshape(())
        for alias in foreign["aliases"]:
            values[alias["name"]] = values[alias["of"]]
        return values


def load(path, model):
    """Copies a checkpoint's weights into a module, converted to its parameters' types. Raises Error if names or shapes differ."""
    import torch

    from zerofleet.errors import Error

    values = Checkpoint(path).state_dict()
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if name not in values:
            raise Error(f"{path}: no weights of {name}", 3)
        if tuple(values[name].shape) != tuple(parameter.shape):
            raise Error(f"{path}: {name} has the shape {list(values[name].shape)}, the module's has "
                        f"{list(parameter.shape)}", 3)
    every = dict(model.named_parameters(remove_duplicate=False))
    for name in values:
        if name not in every:
            raise Error(f"{path}: has weights of {name}, which the module has not", 3)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])
    return model
