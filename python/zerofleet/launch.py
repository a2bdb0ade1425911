"""Starts a run: records the module, writes the run's initial checkpoint, and hands over to the launcher in C++."""

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import sys

from zerofleet import task as tasks
from zerofleet.errors import Error, describe
from zerofleet.task import Task

OPTIONS = "ZEROFLEET_TRAIN_OPTIONS"  # set by `zerofleet run`: a JSON list of options of train
_KEYS = {"--workers": "parallel.workers", "--device": "device"}
_WORDS = ["-m", "zerofleet"]  # the arguments of python that start a process of the package


def words():
    """The command that starts another process like this one."""
    return ["/usr/bin/env", sys.executable, *_WORDS]


def _core():
    from zerofleet import _core as core

    return core


def split_options(options):
    """Splits options of train into (overrides of keys, options that are passed on)."""
    overrides, rest = [], []
    options = list(options)
    while options:
        option = options.pop(0)
        name, equals, value = option.partition("=")
        if name in _KEYS or name == "--set":
            if not equals:
                if not options:
                    raise Error(f"{name}: needs a value")
                value = options.pop(0)
            overrides.append((name, value if name == "--set" else f"{_KEYS[name]}={value}"))
        else:
            rest.append(option)
    return overrides, rest


def _name_of(build):
    module, name = getattr(build, "__module__", ""), getattr(build, "__qualname__", type(build).__qualname__)
    if module in ("__main__", "__mp_main__"):
        path = getattr(sys.modules["__main__"], "__file__", None)
        module = os.path.splitext(os.path.basename(path))[0] if path else "main"
    return f"{module}:{name}"


def _config_text(config):
    """The text of the user's configuration, and its name in messages."""
    if isinstance(config, dict):
        return json.dumps(config), "config"
    path = os.fspath(config)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), path
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None


def _without_adapters(name):
    """The name that a parameter had before PEFT wrapped the module. Of a module that it trains as a whole there are two, the
    trained one and the one before."""
    return re.sub(r"\.(base_layer|original_module|modules_to_save\.[^.]+)\.", ".", name.removeprefix("base_model.model."))


@contextlib.contextmanager
def _weights_in(path):
    """A safetensors file, open for reading; what is wrong with it becomes an Error that names it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise Error(f"weights: {path}: {' '.join(str(error).split())}", 3) from None


def _weights_under_adapters(folder, names, build):
    """The weights of a module that PEFT has wrapped: those in the folder, and the adapters as ``build`` makes them. None
    if the module is not wrapped, or if the folder has names of the wrapped module."""
    import glob

    values = {}
    own = {}  # {the name before: the names that stand for it}
    for name in names:
        own.setdefault(_without_adapters(name), []).append(name)
    if all(name in own for name in names):
        return None
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with _weights_in(path) as file:
            keys = file.keys()
            if not set(keys).isdisjoint(set(names) - own.keys()):
                return None
            for key in keys:
                for name in own.get(key, ()):
                    values[name] = file.get_tensor(key).clone()
    values.update((name, p.detach()) for name, p in build().named_parameters() if name not in values and p.requires_grad)
    return values


def _check_buffers(folder, task, seed, assigned=frozenset()):
    """Raises Error if a folder of weights has a buffer with other values than those that ``build`` makes in every worker, unless it
    is among the names ``assigned``: those begin with the folder's."""
    import glob

    import torch

    from zerofleet.layout import build_on_meta
    from zerofleet.loaders import seed_with

    seed_with(seed)
    buffers = dict(build_on_meta(task.build).named_buffers())
    buffers.update({_without_adapters(name): buffer for name, buffer in buffers.items()})
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with _weights_in(path) as file:
            for name in (buffers.keys() & set(file.keys())) - assigned:
                if name.endswith("num_batches_tracked"):  # counts, and changes nothing else
                    continue
                value, made = file.get_tensor(name), buffers[name]
                if value.shape != made.shape or not torch.equal(value, made.to(value.dtype)):
                    raise Error(f"weights: {path} has other values of the buffer {name} than build makes; buffers are build's "
                                "in every worker, so it must set them")


def _read_folder(folder, wanted=None):
    """The tensors in a folder, or those of them whose names are ``wanted``: of model.safetensors, or of the files that
    model.safetensors.index.json lists, as an import reads them."""
    path = os.path.join(folder, "model.safetensors")
    index = f"{path}.index.json"
    files = [path]
    if not os.path.exists(path):
        if not os.path.exists(index):
            raise Error(f"weights: {folder} has neither model.safetensors nor model.safetensors.index.json", 3)
        try:
            with open(index, encoding="utf-8") as file:
                listed = set(json.load(file)["weight_map"].values())
            files = [os.path.join(folder, os.path.basename(name)) for name in sorted(listed)]
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            raise Error(f"weights: {index}: has no weight_map from names of tensors to names of files", 3) from None
    values = {}
    for path in files:
        with _weights_in(path) as file:
            values.update((key, file.get_tensor(key)) for key in file.keys() if wanted is None or key in wanted)
    return values


def _stored_names(tensor, foreign):
    """The names by which a folder may have a buffer: its own, those that it is tied to, and those before PEFT wrapped the module."""
    own = [tensor["name"], *(alias["name"] for alias in foreign["aliases"] if alias["of"] == tensor["name"])]
    return [*own, *(_without_adapters(name) for name in own)]


def _add_buffers(values, foreign, task, seed):
    """Puts the bytes of buffers, which begin with the values in the folder of weights or with those that ``build`` makes, into
    ``values``."""
    from zerofleet import buffers
    from zerofleet.layout import build_on_meta
    from zerofleet.loaders import seed_with

    seed_with(seed)
    tensors = buffers.tensors_in(foreign)
    if not tensors:
        return
    made = dict(build_on_meta(task.build).named_buffers())
    every = {name for tensor in tensors for name in _stored_names(tensor, foreign)}
    stored = {} if task.weights is None else _read_folder(task.weights, every)
    for tensor in tensors:
        name = tensor["name"]
        value = next((stored[n] for n in _stored_names(tensor, foreign) if n in stored), made[name]).to(made[name].dtype)
        if value.shape != made[name].shape:
            raise Error(f"weights: buffer {name} is {list(value.shape)} there, and {list(made[name].shape)} in the module")
        values[name] = buffers.to_bytes(value)


def _write_initial(task, config, folder, step_dir):
    """Writes the step-0 checkpoint that the run begins with: the user's weights, or those that build makes from the seed."""
    import torch
    from safetensors.torch import save_file

    from zerofleet.buffers import tensors_in
    from zerofleet.loaders import seed_with

    core = _core()
    shutil.rmtree(step_dir, ignore_errors=True)
    foreign = config["model"]["foreign"]
    assigned = tensors_in(foreign)
    assigned_names = {t["name"] for t in assigned}
    if task.weights is not None:
        if not os.path.isdir(task.weights):
            raise Error(f"weights: {task.weights}: no such folder")
        _check_buffers(task.weights, task, config["seed"], {name for t in assigned for name in _stored_names(t, foreign)})
        names = [t["name"] for u in foreign["units"] for t in u["tensors"] if t["name"] not in assigned_names]
        seed_with(config["seed"])
        values = _weights_under_adapters(task.weights, names, task.build)
        if values is None and not assigned:
            core.import_weights(os.fspath(task.weights), step_dir, json.dumps(config))
            return
        if values is None:
            values = _read_folder(task.weights)
    else:
        seed_with(config["seed"])
        values = {name: p.detach() for name, p in task.build().named_parameters()}
    _add_buffers(values, foreign, task, config["seed"])
    temporary = os.path.join(folder, "initial")
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    try:
        save_file({name: (v.reshape(1) if v.ndim == 0 else v).to(torch.float32).contiguous()
                   for name, v in values.items()}, os.path.join(temporary, "model.safetensors"))
        del values
        core.import_weights(temporary, step_dir, json.dumps(config))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _base_of(step_dir):
    """The step-0 checkpoint that the run of a checkpoint began with; the checkpoint itself if that is gone."""
    base = json.loads(_core().read_manifest(step_dir))["config"]["init_from"]
    return base if os.path.isdir(base) else os.path.abspath(step_dir)


def prepare(task, text, name, overrides, resume="auto", foreign=None, ship=True):
    """Writes the complete configuration of a run of this task, and the files that its workers and its first step need.
    Returns the configuration's path.

    ``foreign`` is the record of the module; None: it is recorded here. ``ship``: whether workers get the task by pickle.
    """
    from zerofleet.record import describe_module

    core = _core()
    task.check()
    own = [("zerofleet.train", f"data.samples={tasks.length_of(task.data, 'data')}")]
    if task.validation is not None:
        own.append(("zerofleet.train", f"data.validation_samples={tasks.length_of(task.validation, 'validation')}"))
    config = json.loads(core.parse_config(text, name, list(overrides) + own))
    config["model"]["foreign"] = foreign or describe_module(task, config)
    folder = os.path.join(config["checkpoint"]["dir"], ".torch")
    core.check_free(config["checkpoint"]["dir"])  # before anything of a run in progress is overwritten
    os.makedirs(folder, exist_ok=True)
    os.environ.pop(tasks.VARIABLE, None)  # an earlier run's
    if ship:
        tasks.write(task, os.path.join(folder, "task.pickle"))
        os.environ[tasks.VARIABLE] = os.path.abspath(os.path.join(folder, "task.pickle"))
    newest = core.newest_checkpoint(config["checkpoint"]["dir"])
    # An absolute path, since checkpoints of a module with frozen parameters name it, and may be read from any directory.
    step_dir = os.path.abspath(os.path.join(folder, "step-00000000"))
    if not config["init_from"]:
        if resume not in ("auto", "none"):
            step_dir = _base_of(resume)
        elif resume == "none" or not newest:
            _write_initial(task, config, folder, step_dir)
        config["init_from"] = step_dir
    path = os.path.join(folder, "run.json")
    # Check the configuration again, now that it is complete.
    complete = core.parse_config(json.dumps(config), name, [])
    with open(path, "w", encoding="utf-8") as file:
        file.write(complete)
    return path


def _option(rest, name, default):
    for i, option in enumerate(rest):
        if option == name and i + 1 < len(rest):
            return rest[i + 1]
        if option.startswith(f"{name}="):
            return option.partition("=")[2]
    return default


def threads_of(arguments):
    """The number of PyTorch's threads in a worker with this command line: OMP_NUM_THREADS wins, as in any PyTorch program. To
    be called before the engine changes PyTorch's own number."""
    import torch

    given = _option(arguments, "--threads", "")
    if "OMP_NUM_THREADS" not in os.environ and given.isdigit() and int(given) > 0:
        return int(given)
    return torch.get_num_threads()


def run(task, text, name, options):
    """Runs the task to its end; returns the exit code."""
    overrides, rest = split_options(options)
    path = prepare(task, text, name, overrides, _option(rest, "--resume", "auto"))
    if _option(rest, "--run-name", None) is None:
        rest += ["--run-name", os.path.splitext(os.path.basename(name))[0]]
    return _core().main(["train", path, *rest], words(), None)


def train(build, *, data, loss, config, weights=None, units=None, collate=None, validation=None, decay=None,
          loader_workers=0, buffers=None, options=()):
    """Trains a PyTorch module on this machine, with a coordinator and as many workers as the configuration says.

    The parts are those of Task. ``config`` is the path of a YAML file, or a dict, with the keys of docs/configuration.md
    except those of a built-in model's sizes and files. ``options`` are command-line options of ``zerofleet train``, such as
    ``["--report", "run.jsonl"]``; ``zerofleet run`` adds its own. Returns when the run has ended; raises SystemExit with
    the run's exit code if that is not 0.

    The script runs again in every worker, up to its ``if __name__ == "__main__":``, under which ``train`` is called.
    """
    if os.environ.get("ZEROFLEET_LAUNCHER_PID") or multiprocessing.parent_process() is not None:
        raise Error('zerofleet.train was called while a worker imported the script; call it under if __name__ == '
                    '"__main__":')
    task = Task(build=build, data=data, loss=loss, weights=weights, units=units, collate=collate, validation=validation,
                decay=decay, loader_workers=loader_workers, buffers=buffers)
    given = json.loads(os.environ.get(OPTIONS, "[]")) + list(options)
    text, name = _config_text(config)
    named = [("zerofleet.train", f"model.torch={_name_of(build)}")]
    overrides, rest = split_options(given)
    code = fail_in_one_line(lambda: run(task, text, name, [f"--set={v}" for _, v in named + overrides] + rest))
    if code != 0:
        raise SystemExit(code)


def exit_in_one_line(error):
    """Prints an Error as a line on stderr, and raises SystemExit with its exit code."""
    print(f"zerofleet: {error}", file=sys.stderr)
    raise SystemExit(error.exit_code) from None


def fail_in_one_line(body):
    """Runs body and returns its result; an error becomes one line on stderr, as on the command line, and an exit code."""
    try:
        return body()
    except Error as error:
        print(f"zerofleet: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit:
        raise
    except Exception as error:
        print(f"zerofleet: {describe(error)}", file=sys.stderr)
        return 2
