"""`zerofleet.steps`: a loop of the user's own over the same engine.

    run = zf.steps(build, data=MyDataset("train.jsonl"), config="run.yaml")
    for micro in run:
        with micro:
            loss, weight = my_loss(run.model, micro.batch)
            micro.backward(loss, weight)

The script is run once in the launcher and once in every worker. In the launcher the body sees two micro-batches of fake
tensors, which say in what order the module's units are used; then the loop waits for the run's end. In a worker the body
sees every micro-batch of the worker, and the loop ends with the process. What stands behind the loop is therefore run
in the launcher alone.
"""

import json
import os
import queue
import sys
import threading

from zerofleet import launch, task as tasks
from zerofleet.errors import Error
from zerofleet.task import Task

WORKER = None  # the arguments of `worker`, where this process is one (__main__.py)


def _no_loss(model, batch):
    raise Error("zerofleet.steps has no evaluation: its loss is the loop's; use zerofleet.train")


class Micro:
    """One micro-batch: ``batch``, and ``backward(loss, weight)``, which must be called once within ``with``."""

    def __init__(self, batch, enter, leave):
        self.batch = batch
        self._enter, self._leave = enter, leave
        self._result = None

    def __enter__(self):
        self._enter()
        return self

    def backward(self, loss, weight=1):
        """Gradients of ``loss``, a sum, which the step divides by the sum of all weights."""
        import torch

        if self._result is not None:
            raise Error("micro.backward: was called twice for one micro-batch")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise Error("micro.backward: the loss must be a tensor of one element")
        self._result = loss.detach(), weight
        loss.backward()

    def __exit__(self, kind, error, trace):
        if error is None and self._result is None:
            error = Error("micro.backward: was not called for a micro-batch")
        self._leave(self._result, error)
        if kind is None and error is not None:
            raise error


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
        for passed in self._recording.micro_batches():
            enter, leave = passed.enter, passed.leave
            yield Micro(passed.batch, enter, leave)
        task, text, name, overrides = self._parsed
        words = [sys.executable, "-m", "zerofleet", "script", os.path.abspath(sys.argv[0]), *sys.argv[1:], "--"]
        path = launch.prepare(task, text, name, overrides, launch._option(self._rest, "--resume", "auto"),
                              foreign=self._recording.foreign(), ship=False)
        code = launch._core().main(["train", path, *self._rest], words, None)
        if code != 0:
            raise SystemExit(code)


class _Worker:
    """The engine in a thread of its own, the loop's body in the script's."""

    def __init__(self, task):
        self._task = task
        self._asked, self._answers = queue.Queue(), queue.Queue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()
        what, config = self._asked.get()
        if what == "end":
            self._exit(config)
        from zerofleet.passes import Passes

        threads = launch._option(WORKER, "--threads", None)
        self._passes = Passes(int(threads) if threads else 0)
        try:
            self._passes.prepare(config, task)
        except BaseException as error:
            self._answers.put(error)
            self._thread.join()
            raise
        self.model = self._passes.model
        self._answers.put(None)

    # --- In the engine's thread

    def _run(self):
        words = [sys.executable, "-m", "zerofleet"]
        code = launch._core().main(WORKER, words, self)
        self._asked.put(("end", code))

    def _ask(self, *what):
        self._asked.put(what)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def prepare(self, config_json):
        self._ask("prepare", config_json)

    def facts(self):
        return self._passes.facts()

    def train(self, units, samples, position, scale, on_backward):
        return self._ask("train", units, samples, position)

    def evaluate(self, units, samples, position):
        raise Error("zerofleet.steps has no evaluation; leave validation out")

    # --- In the script's

    def _exit(self, code):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what stands behind the loop is the launcher's

    def __iter__(self):
        while True:
            what, *given = self._asked.get()
            if what == "end":
                self._exit(given[0])
            units, samples, position = given
            batch = self._passes.batch(samples, position)

            def leave(result, error):
                self._passes.end()
                self._answers.put(error if error is not None else (float(result[0]), float(result[1])))

            yield Micro(batch, lambda: self._passes.begin(units), leave)


def steps(build, *, data, config, weights=None, units=None, collate=None, decay=None, options=()):
    """The micro-batches of a run, for a loop of the user's own; ``model`` of the result is the module to use in it.

    The arguments are those of ``zerofleet.train``, without a loss, which is the loop's.
    """
    task = Task(build=build, data=data, loss=_no_loss, weights=weights, units=units, collate=collate, decay=decay)
    task.check()
    if WORKER is not None:
        return _Worker(task)
    given = json.loads(os.environ.get(launch.OPTIONS, "[]")) + list(options)
    text, name = launch._config_text(config)
    named = [f"--set=model.torch={launch._name_of(build)}"]
    return _Launcher(task, text, name, named + given)
