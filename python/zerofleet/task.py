"""The parts of the user's code that a run needs, and how workers get them."""

import importlib
import os
import pickle
import runpy
import sys
import types
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

from zerofleet.errors import Error

VARIABLE = "ZEROFLEET_TASK"  # names the file that the launcher has written for its workers
_PARTS = ("build", "data", "loss", "collate", "validation", "loader_workers", "buffers")  # the fields that a worker needs


@dataclass
class Task:
    """A module, its data and its loss.

    build:      makes the module, without arguments; called in every worker, where its parameters are on meta.
    data:       a map-style dataset: ``len(data)`` and ``data[i]``.
    loss:       ``loss(model, batch)``: a scalar sum and the weight that it is divided by, such as a number of tokens.
    collate:    a list of samples to a batch; by default ``torch.utils.data.default_collate``.
    validation: a dataset like ``data``, evaluated with the same loss and without gradients; or None.
    weights:    a folder of safetensors files with the names of ``state_dict``; None: the weights that ``build`` makes.
    units:      classes or names of modules (``*`` matches) whose parameters are gathered and released together; None: the
                members of the module's outermost ``ModuleList``s and ``Sequential``s of one class.
    decay:      ``decay(name, parameter)``: whether weight decay applies; by default to parameters of 2 or more dimensions.
    loader_workers: processes of each worker that read samples ahead; 0: the worker reads them itself, between passes.
    buffers:    "rank0": buffers that a training pass changes get, in every worker, the values that rank 0's first micro-batch of
                each step gives them; None: such buffers are refused.
    """

    build: Callable[[], Any]
    data: Any
    loss: Callable[[Any, Any], Any]
    collate: Optional[Callable[[list], Any]] = None
    validation: Any = None
    weights: Optional[str] = None
    units: Optional[Sequence[Any]] = None
    decay: Optional[Callable[[str, Any], bool]] = None
    loader_workers: int = 0
    buffers: Optional[str] = None

    def check(self):
        """Raises Error unless every part is of the right kind."""
        for name in ("build", "loss", "collate", "decay"):
            value = getattr(self, name)
            if value is None and name in ("collate", "decay"):
                continue
            if not callable(value):
                raise Error(f"{name}: must be a function, got {type(value).__name__}")
        length_of(self.data, "data")
        if self.validation is not None:
            length_of(self.validation, "validation")
        if not isinstance(self.loader_workers, int) or self.loader_workers < 0:
            raise Error(f"loader_workers: must be a number of processes from 0, got {self.loader_workers!r}")
        if self.buffers not in (None, "rank0"):
            raise Error(f'buffers: must be "rank0" or None, got {self.buffers!r}')
        if isinstance(self.units, str):
            raise Error(f'units: must be a list of names, such as ["{self.units}"], got a string')
        if self.units is not None and not (isinstance(self.units, (list, tuple, set))
                                           and all(isinstance(unit, (str, type)) for unit in self.units)):
            raise Error(f"units: must be a list of classes or names of modules, got {self.units!r}")


def _is_iterable(dataset):
    """Whether it is an IterableDataset of PyTorch's, which has a __getitem__ that raises."""
    torch = sys.modules.get("torch")  # a dataset of PyTorch's has imported it
    return torch is not None and isinstance(dataset, torch.utils.data.IterableDataset)


def length_of(dataset, name):
    """The number of samples of a map-style dataset."""
    if _is_iterable(dataset) or not hasattr(dataset, "__getitem__"):
        raise Error(f"{name}: {type(dataset).__name__} has no __getitem__: a map-style dataset is needed, whose samples "
                    "any rank can read by number")
    try:
        length = len(dataset)
    except TypeError:
        raise Error(f"{name}: {type(dataset).__name__} has no length: a map-style dataset is needed, which has __len__"
                    ) from None
    if length < 1:
        raise Error(f"{name}: {type(dataset).__name__} has no samples")
    return length


def _problem(name, value):
    """One line that says why a part cannot be sent; None if it can."""
    try:
        pickle.dumps(value)
        return None
    except Exception as error:  # the user's own reduction may raise anything
        if getattr(value, "__name__", "") == "<lambda>":
            return f"{name}: a lambda cannot be sent to a worker; define it with def at the top level of a module"
        if "<locals>" in getattr(value, "__qualname__", ""):
            return (f"{name}: {value.__qualname__} cannot be sent to a worker; define it at the top level of a module")
        return f"{name}: cannot be sent to a worker: {' '.join(str(error).split())}"


def _find_main():
    """Where the script is that this process runs: (its path, None), or (None, its module's name) if it was started with -m.
    Neither, if it is the package itself, whose tasks belong to named modules, or no file."""
    main = sys.modules.get("__main__")
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return None, spec.name if spec.name.partition(".")[0] != "zerofleet" else None
    return os.path.abspath(path) if path and os.path.isfile(path) else None, None


def write(task, path):
    """Writes the parts that workers need, as pickle."""
    parts = {name: getattr(task, name) for name in _PARTS}
    main, module = _find_main()
    for name, value in parts.items():
        problem = _problem(name, value)
        if problem:
            raise Error(problem)
        if main is None and module is None and getattr(value, "__module__", None) == "__main__":
            what = getattr(value, "__qualname__", type(value).__qualname__)
            raise Error(f"{name}: {what} is defined in no file, so that a worker cannot import it; define it in a script or a "
                        "module")
    record = {"main": main, "module": module, "path": [p or os.getcwd() for p in sys.path], "parts": pickle.dumps(parts)}
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        pickle.dump(record, file)
    os.replace(temporary, path)


def _import_main(path, name):
    """Makes the launcher's script, a path or a module's name, this process's ``__main__``, as multiprocessing does for spawned
    processes."""
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    sys.modules["__mp_main__"] = module
    if name:
        content = runpy.run_module(name, run_name="__mp_main__", alter_sys=True)
    else:
        content = runpy.run_path(path, run_name="__mp_main__")
    module.__dict__.update(content)
    sys.modules["__main__"] = module


def read(path):
    """Reads the launcher's task in a worker."""
    with open(path, "rb") as file:
        record = pickle.load(file)
    sys.path[:] = record["path"]
    if record["main"] or record["module"]:
        _import_main(record["main"], record["module"])
    return Task(**pickle.loads(record["parts"]))


def find(name):
    """The task that ``model.torch: MODULE:FUNCTION`` names: a Task, or a function that is ``build``, with the other parts
    next to it in the module under the names of Task's fields."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise Error(f"model.torch: must be MODULE:FUNCTION, got {name}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0] and error.name != module_name:
            raise
        raise Error(f"model.torch: no module named {module_name} in {os.getcwd()} or on PYTHONPATH") from None
    if not hasattr(module, attribute):
        raise Error(f"model.torch: module {module_name} has no {attribute}")
    value = getattr(module, attribute)
    if isinstance(value, Task):
        return value
    fields = ("data", "loss", "collate", "validation", "weights", "units", "decay", "loader_workers", "buffers")
    parts = {field: getattr(module, field) for field in fields if hasattr(module, field)}
    for needed in ("data", "loss"):
        if needed not in parts:
            raise Error(f"model.torch: module {module_name} has no {needed} beside {attribute}; define it there, or make "
                        f"{attribute} a zerofleet.Task")
    return Task(build=value, **parts)


def source_of(config):
    """Where this worker's task comes from; ``open_source`` takes it, here or in another process."""
    path = os.environ.get(VARIABLE)
    return ("file", path) if path else ("name", config["model"]["torch"])


def open_source(source):
    """The launcher's task, or the one that the configuration names."""
    kind, value = source
    return read(value) if kind == "file" else find(value)
