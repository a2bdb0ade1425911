"""`zerofleet.steps`: the user's own loop over the engine.

    run = zf.steps(build, data=MyDataset("train.jsonl"), config="run.yaml")
    for micro in run:
        with micro:
            loss, weight = my_loss(run.model, micro.batch)
            micro.backward(loss, weight)

The script is run once in the launcher and once in every worker. In the launcher the body sees two micro-batches of fake
tensors, which record the order in which the module's units are used; then the loop waits for the run's end. In a worker the
body sees every micro-batch of the worker, and the loop ends with the process. The code after the loop therefore runs only in
the launcher.
"""

import atexit
import json
import os
import queue
import sys
import threading

from zerofleet import launch, task as tasks
from zerofleet.errors import Error
from zerofleet.task import Task

WORKER = None  # the arguments of `worker` if this process is a worker (__main__.py)
_PASSED_OVER = ("zerofleet.steps: a micro-batch was passed over; begin the loop's body with `with micro:`, and call "
                "micro.backward in it")
_LEFT = "zerofleet.steps: the loop was left before the run's end; `steps` in the configuration says how long a run is"


def _no_loss(model, batch):
    raise Error("zerofleet.steps has no evaluation: its loss is the loop's; use zerofleet.train")


def _own_command():
    """How the run's processes start this script: by its path, or by its module's name if `python -m` has started it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    kind, what = ("script", os.path.abspath(sys.argv[0])) if spec is None else ("module", spec.name)
    return [sys.executable, "-m", "zerofleet", kind, what, *sys.argv[1:], "--"]


def _end_in_failure():
    """Makes this process's exit code 2, however the script goes on: what a closed generator raises is only printed."""
    def leave():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(2)

    atexit.register(leave)


class Micro:
    """One micro-batch: ``batch``, and ``backward(loss, weight)``, which must be called once within ``with``."""

    def __init__(self, batch, enter, leave, backward=None):
        self.batch = batch
        self.left = False
        self._enter, self._leave = enter, leave
        self._backward = backward or (lambda loss, weight: loss.backward())
        self._result = None

    def __enter__(self):
        self._enter()
        return self

    def backward(self, loss, weight=1):
        """Computes the gradients of ``loss``, a sum that the step divides by the sum of all weights."""
        import torch

        if self._result is not None:
            raise Error("micro.backward: was called twice for one micro-batch")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise Error("micro.backward: the loss must be a tensor of one element")
        if not loss.requires_grad:
            raise Error("micro.backward: the loss does not depend on any parameter; is the module run under "
                        "torch.no_grad()?")
        self._result = loss.detach(), weight
        self._backward(loss, weight)

    def __exit__(self, kind, error, trace):
        self.left = True
        if error is None and self._result is None:
            error = Error("micro.backward: was not called for a micro-batch")
        return self._leave(self._result, error)


class _Launcher:
    """Shows the loop's body fake micro-batches, then runs the fleet."""

    def __init__(self, task, text, name, options):
        from zerofleet.record import Recording

        core = launch._core()
        overrides, self._rest = launch.split_options(options)
        self._parsed = task, text, name, overrides
        own = [("zerofleet.steps", f"data.samples={tasks.length_of(task.data, 'data')}")]
        config = json.loads(core.parse_config(text, name, overrides + own))
        self._recording = Recording(task, config)
        self.model = self._recording.model

    def __iter__(self):
        try:
            yield from self._record()
        except Error as error:
            launch.exit_in_one_line(error)
        task, text, name, overrides = self._parsed
        words = _own_command()

        def run():
            path = launch.prepare(task, text, name, overrides, launch._option(self._rest, "--resume", "auto"),
                                  foreign=self._recording.foreign(), ship=False)
            return launch._core().main(["train", path, *self._rest], words, None)

        code = launch.fail_in_one_line(run)
        if code != 0:
            raise SystemExit(code)

    def _record(self):
        for passed in self._recording.micro_batches():
            micro = Micro(passed.batch, passed.enter, lambda result, error, passed=passed: self._leave(passed, error))
            try:
                yield micro
            except GeneratorExit:
                if self._leaving is None:
                    print(f"zerofleet: {_LEFT}", file=sys.stderr)
                    _end_in_failure()
                raise
            if not micro.left:
                raise Error(_PASSED_OVER)

    _leaving = None  # the exception that has ended the loop's body

    def _leave(self, passed, error):
        from zerofleet.record import DATA_DEPENDENT, data_dependent

        passed.leave()
        self._leaving = error
        if isinstance(error, DATA_DEPENDENT):
            error = data_dependent(error)
        if isinstance(error, Error):
            launch.exit_in_one_line(error)
        return False  # any other exception is the script's own


class _Worker:
    """Runs the engine in a thread of its own, and the loop's body in the script's thread.

    The engine requests a pass and waits for the answer. If that is an exception, the engine ends the pass; it then requests
    another one in another view, or ends, with a line that says why if the exception was the script's.
    """

    current = None

    def __init__(self, task):
        from zerofleet.passes import Passes

        _Worker.current = self
        self._passes = Passes(launch.threads_of(WORKER))
        self._asked, self._answers = queue.Queue(), queue.Queue()
        self._unanswered = False
        threading.Thread(target=self._run, name="engine", daemon=True).start()
        given = self._next()
        try:
            self._passes.prepare(*given, task)
        except BaseException as error:
            self.end(error)
        self.model = self._passes.model
        self._answer(None)

    # --- Called in the engine's thread

    def _run(self):
        words = [sys.executable, "-m", "zerofleet"]
        code = 1
        try:
            code = launch._core().main(WORKER, words, self)
        finally:
            self._asked.put(("end", code))

    def _ask(self, *what):
        self._asked.put(what)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def prepare(self, config_json, device, number):
        self._ask("prepare", config_json, device, number)

    def facts(self):
        return self._passes.facts()

    def limit_memory(self, most):
        self._passes.limit_memory(most)

    def train(self, units, samples, position, first, on_backward):
        return self._ask("train", units, samples, position, first)

    def evaluate(self, units, samples, position):
        raise Error("zerofleet.steps has no evaluation; leave validation out")

    # --- Called in the script's thread

    def _next(self):
        """The engine's next request. Does not return if the engine has ended."""
        what, *given = self._asked.get()
        if what == "end":
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(given[0])  # the code after the loop runs only in the launcher
        self._unanswered = True
        return given

    def _answer(self, answer):
        self._unanswered = False
        self._answers.put(answer)

    def end(self, error):
        """Ends the run, and with it this process, because the script has stopped for the reason ``error``."""
        while True:
            if self._unanswered:
                self._answer(error)
            self._next()

    def __iter__(self):
        while True:
            units, samples, position, first = self._next()
            try:
                batch = self._passes.batch(samples, position)
                # Not in Micro.__enter__, whose exceptions would leave the loop: the root is gathered here, and a peer may be
                # lost.
                self._passes.begin(units, first)
                batch = self._passes.move(batch)
            except BaseException as error:
                self._answer(error)
                continue
            micro = Micro(batch, self._passes.set_modes, self._leave, self._passes.backward)
            yield micro  # if the loop is left here, `end` tells the engine, with the exception if there is one
            if not micro.left:
                self._passes.end()
                self._answer(Error(_PASSED_OVER))

    def _leave(self, result, error):
        try:
            answer = error if error is not None else self._passes.result_of(*result)
        except BaseException as other:
            answer = other
        try:
            self._passes.end()
        except BaseException as other:
            answer = error if error is not None else other
        self._answer(answer)
        return True  # the engine knows whether the run goes on


class _Failing:
    """The passes that the engine gets if the script has failed before its loop began: they raise the script's error."""

    def __init__(self, error):
        self._error = error

    def prepare(self, config_json, device, number):
        raise self._error


def end(path, error):
    """Ends this worker's run after its script: ``error`` is the exception that it has raised, None if it has just ended.
    Returns the exit code."""
    if _Worker.current is not None:
        _Worker.current.end(error or Error(_LEFT))
    error = error or Error(f"{path}: has ended in a worker without a loop over zerofleet.steps")
    return launch._core().main(WORKER, [sys.executable, "-m", "zerofleet"], _Failing(error))


def steps(build, *, data, config, weights=None, units=None, collate=None, decay=None, buffers=None, options=()):
    """The micro-batches of a run, for the user's own loop; the result's ``model`` is the module to use in it.

    The arguments are those of ``zerofleet.train``, except the loss, which the loop computes.
    """
    task = Task(build=build, data=data, loss=_no_loss, weights=weights, units=units, collate=collate, decay=decay,
                buffers=buffers)
    if WORKER is not None:
        task.check()
        return _Worker(task)
    try:
        task.check()
        given = json.loads(os.environ.get(launch.OPTIONS, "[]")) + list(options)
        text, name = launch._config_text(config)
        named = [f"--set=model.torch={launch._name_of(build)}"]
        return _Launcher(task, text, name, named + given)
    except Error as error:
        launch.exit_in_one_line(error)
