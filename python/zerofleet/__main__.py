"""`python -m zerofleet`: the command line, with workers and launchers that know PyTorch."""

import json
import os
import sys

from zerofleet.errors import Error, forbid_fork
from zerofleet.launch import _config_text, _option, fail_in_one_line, run, split_options, threads_of, words


# PyTorch allocates every CPU tensor with malloc. By default glibc gives memory back to the kernel at the end of each pass, and in
# the next pass the kernel clears the pages again, which takes up to a fifth of a step. Tensors of 32 MiB and more are still
# mapped separately, so that they leave no holes.
_ALLOCATOR = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1099511627776"


def _keep_memory():
    """Executes this worker's process again with _ALLOCATOR set, unless the user has tuned glibc."""
    if "GLIBC_TUNABLES" not in os.environ and hasattr(sys, "orig_argv"):  # Python 3.10
        os.environ["GLIBC_TUNABLES"] = _ALLOCATOR
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _worker(arguments):
    import torch  # noqa: F401  before the engine starts any thread

    from zerofleet.passes import Passes

    from zerofleet import _core

    forbid_fork()
    return _core.main(arguments, words(), Passes(threads_of(arguments)))


def _split_path(arguments):
    """The first argument that is neither an option nor an option's value, and the other arguments."""
    takes_value = False
    for i, argument in enumerate(arguments):
        if takes_value:
            takes_value = False
        elif argument.startswith("-"):
            takes_value = "=" not in argument and argument not in ("--auto", "--help", "-h")
        else:
            return argument, arguments[:i] + arguments[i + 1:]
    return None, arguments


def _train(arguments):
    from zerofleet import _core, task

    path, given = _split_path(arguments[1:])
    if path is None or "--help" in arguments or "-h" in arguments:
        return _core.main(arguments, words(), None)
    overrides, _ = split_options(given)
    text, name = _config_text(path)
    config = json.loads(_core.parse_config(text, name, overrides))
    if not config["model"]["torch"] or config["model"]["foreign"]:
        return _core.main(arguments, words(), None)
    return run(task.find(config["model"]["torch"]), text, name, given)


def _prepare(arguments):
    """`prepare CONFIG [--set KEY=VALUE]...`: writes the files for a coordinator and workers that are started by other means."""
    from zerofleet import launch, task

    path, given = _split_path(arguments[1:])
    overrides, rest = split_options(given)
    if path is None or rest:
        raise Error("prepare: needs a configuration, and takes --set, --workers and --device; got "
                    f"{' '.join(arguments[1:]) or 'nothing'}")
    text, name = _config_text(path)
    config = json.loads(launch._core().parse_config(text, name, overrides))
    if not config["model"]["torch"]:
        raise Error(f"prepare: {path} has no model.torch; a built-in model's configuration goes to the coordinator as it is")
    print(os.path.abspath(launch.prepare(task.find(config["model"]["torch"]), text, name, overrides, ship=False)))
    return 0


def _script(kind, arguments):
    """`script PATH ARGS... -- COMMAND...`, or `module NAME ...`: a process of a run of zerofleet.steps."""
    split = len(arguments) - 1 - arguments[::-1].index("--")
    (what, *own), command = arguments[:split], arguments[split + 1:]
    if command[:1] != ["worker"]:
        from zerofleet import _core

        return _core.main(command, words(), None)
    import runpy

    import torch  # noqa: F401  before the engine starts any thread

    from zerofleet import loop

    forbid_fork()
    loop.WORKER = command
    sys.argv = [what, *own]
    raised = None
    try:
        if kind == "module":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(what))
            runpy.run_path(what, run_name="__main__")
    except BaseException as error:  # also SystemExit: a worker ends with its run
        raised = error
    return loop.end(what, raised)


def _config(arguments):
    from zerofleet.deepspeed import to_yaml

    path = _option(arguments, "--from-deepspeed", None)
    if path is None:
        raise Error("config: needs --from-deepspeed FILE.json")
    workers = _option(arguments, "--workers", "1")
    if not workers.isdigit() or int(workers) < 1:
        raise Error(f"--workers: must be a number of workers, got {workers}")
    sys.stdout.write(to_yaml(path, int(workers)))
    return 0


def main():
    """The entry point of the module, and of the command that the package installs."""
    arguments = sys.argv[1:]
    os.environ.setdefault("ZEROFLEET_PYTHON", sys.executable)
    if arguments[:1] == ["config"]:
        return fail_in_one_line(lambda: _config(arguments))
    if arguments[:1] == ["prepare"]:
        return fail_in_one_line(lambda: _prepare(arguments))
    is_script = arguments[:1] in (["script"], ["module"])
    if arguments[:1] == ["worker"] or (is_script and "worker" in arguments):
        _keep_memory()
    if arguments[:1] == ["worker"]:
        return _worker(arguments)
    if is_script:
        return _script(arguments[0], arguments[1:])
    if arguments[:1] == ["train"]:
        return fail_in_one_line(lambda: _train(arguments))
    from zerofleet import _core

    return _core.main(arguments, words(), None)


if __name__ == "__main__":
    sys.exit(main())
