"""Zerofleet: ZeRO training of any PyTorch module, driven by an engine in C++.

``train`` starts a run; ``steps`` does so for scripts with a loop of their own; ``Checkpoint`` and ``load`` read any
checkpoint without a fleet. PyTorch is imported only where it is used, not by
this package's import.
"""

import os as _os

from zerofleet.errors import Error

# UCX opens its transports by itself; in a wheel it is pointed to those that the wheel carries (python/wheel.sh).
_transports = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "ucx")
if _os.path.isdir(_transports):
    _os.environ.setdefault("UCX_MODULE_DIR", _transports)

__version__ = "0.2.0"
__all__ = ["Checkpoint", "Error", "Task", "load", "steps", "train"]


def __getattr__(name):
    if name == "train":
        from zerofleet.launch import train

        return train
    if name == "steps":
        from zerofleet.loop import steps

        return steps
    if name == "Task":
        from zerofleet.task import Task

        return Task
    if name in ("Checkpoint", "load"):
        from zerofleet import checkpoint

        return getattr(checkpoint, name)
    raise AttributeError(f"module 'zerofleet' has no attribute '{name}'")
