"""Processes that read a worker's samples ahead of it.

A batch depends only on its samples, the run's seed and its position, so it does not matter which process makes it, or when:
a guess at the next samples may be wrong, and a process that is lost is replaced. Processes come from multiprocessing's
forkserver, which is started by exec, since a fork of the worker itself would lack the engine's threads. They end with the
worker, however that ends.
"""

import collections
import multiprocessing
import pickle
import queue
import random
import signal
import threading
from multiprocessing import forkserver

from zerofleet import task as tasks
from zerofleet.errors import Error, describe

_HISTORY = 4096  # positions to remember


def seed_with(number):
    """Seeds the random numbers of PyTorch, Python and numpy."""
    import torch

    torch.manual_seed(number % 2**63)
    random.seed(number)
    try:
        import numpy

        numpy.random.seed(number % 2**32)
    except ImportError:
        pass


def seed_all(seed, position, what=0):
    """Seeds all random numbers, from the run's seed and the micro-batch's position in the run alone; ``what`` is 1 for those
    of the data and 0 for those of the pass."""
    mixed = (seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB + what * 0xD6E8FEB86659FD93)
    mixed %= 2**64
    mixed ^= mixed >> 31
    seed_with(mixed)


def make_batch(dataset, collate, samples, seed, position, dtype):
    """The batch of these samples. Random numbers in it depend on seed and position alone."""
    from zerofleet.record import to_compute_type

    seed_all(seed, position, 1)
    return to_compute_type(collate([dataset[i] for i in samples]), dtype)


def _die_with_parent():
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; the parent is the forkserver, which ends with the worker


def _receive(connection, requests):
    """Puts every request into a queue, and None at the end. The worker's thread must never wait to send one, since it may be
    a long list and the answer before it, which nobody reads meanwhile, longer than a pipe holds."""
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (EOFError, OSError):
        requests.put(None)


def _serve(connection, source, seed, dtype):
    """The body of a loader process: answers requests in their order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when to stop
    _die_with_parent()
    import torch

    from zerofleet.record import collate_of

    torch.set_num_threads(1)
    task = failed = None
    try:
        task = tasks.open_source(source)
    except Exception as error:
        failed = describe(error)
    requests = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    while True:
        request = requests.get()
        if request is None:
            return
        samples, position = pickle.loads(request)
        try:
            answer = (failed, None)
            if not failed:
                answer = (None, make_batch(task.data, collate_of(task), samples, seed, position, dtype))
            answer = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            answer = pickle.dumps((describe(error), None))
        try:
            connection.send_bytes(answer)
        except BrokenPipeError:
            return


class _Loader:
    """One process, and the batches that have been requested from it."""

    def __init__(self, context, arguments):
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.asked = collections.deque()

    def ask(self, key):
        self.asked.append(key)
        try:
            self.connection.send_bytes(pickle.dumps((list(key[1]), key[0])))
        except OSError:
            pass  # noticed where the answer is awaited

    def answer(self):
        """The oldest request and its answer, as bytes; EOFError or OSError if the process has ended."""
        answer = self.connection.recv_bytes()
        return self.asked.popleft(), answer


class Loaders:
    """Batches of the training set, made by ``count`` processes.

    ``order(position, count)`` returns the ``count`` samples from a position of the run's order on; ``per_step`` is the number
    of positions that a step takes.
    """

    def __init__(self, source, count, seed, dtype, per_step, order):
        self._context = multiprocessing.get_context("forkserver")
        # The engine's thread blocks signals. The fork server would inherit that, and would never notice the end of a process.
        blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._arguments = (source, seed, dtype)
        self._per_step, self._order = per_step, order
        self._ahead = count + 1
        self._history = collections.deque(maxlen=_HISTORY)
        self._ready = {}  # {(position, samples): answer}
        self._wanted = set()
        self._loaders = [_Loader(self._context, self._arguments) for _ in range(count)]

    def batch(self, samples, position):
        """The batch of these samples. Raises Error with a line on the exception that the dataset or collate has raised."""
        key = (position, tuple(samples))
        self._history.append(position)
        self._wanted = {key, *self._next(position, len(samples))}
        self._ready = {k: v for k, v in self._ready.items() if k in self._wanted}
        asked = {k for loader in self._loaders for k in loader.asked} | self._ready.keys()
        for one in sorted(self._wanted - asked, key=lambda k: (k != key, k)):
            min(self._loaders, key=lambda loader: len(loader.asked)).ask(one)
        error, batch = pickle.loads(self._await(key))
        if error is not None:
            raise Error(error)
        return batch

    def _next(self, position, count):
        """The batches that are expected next, in the order of the preceding step."""
        places = list(self._history)
        try:
            at = len(places) - 1 - places[::-1].index(position - self._per_step)
        except ValueError:
            return [self._key(position + (1 + i) * count, count) for i in range(self._ahead)]
        for i in range(self._ahead):
            places.append(places[at + 1 + i] + self._per_step)
        return [self._key(p, count) for p in places[-self._ahead:]]

    def _key(self, position, count):
        return position, tuple(self._order(position, count))

    def _await(self, key):
        for attempt in (1, 2):
            if key in self._ready:
                return self._ready.pop(key)
            index = next(i for i, loader in enumerate(self._loaders) if key in loader.asked)
            try:
                while key not in self._ready:
                    found, answer = self._loaders[index].answer()
                    if found in self._wanted:
                        self._ready[found] = answer
                return self._ready.pop(key)
            except (EOFError, OSError):
                self._replace(index, attempt)

    def _replace(self, index, attempt):
        """Replaces a process that has ended by another, and repeats its requests there."""
        lost = self._loaders[index]
        lost.process.join(10)
        code = lost.process.exitcode
        how = "has closed its pipe" if code is None else f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        if attempt == 2:
            raise Error(f"data: a loader process {how}, twice over the same samples")
        self._loaders[index] = _Loader(self._context, self._arguments)
        for key in lost.asked:
            self._loaders[index].ask(key)
