"""Errors as one line: what is wrong, where, and what to do instead."""

import os
import traceback

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


class Error(Exception):
    """An error of a run or a checkpoint.

    ``exit_code`` is the command line's: 2 usage or configuration, 3 data or checkpoint, 4 the fleet.
    """

    def __init__(self, message, exit_code=2):
        super().__init__(message)
        self.exit_code = exit_code


def _refuse_fork():
    raise RuntimeError("os.fork: is not supported in a worker, whose engine has threads; start processes with "
                       "multiprocessing's spawn or forkserver, or with subprocess")


def forbid_fork():
    """Makes os.fork raise in this process from now on: a child would lack the engine's threads, and wait for them."""
    os.fork = os.forkpty = _refuse_fork


def describe(error):
    """One line about an exception: the last frame that is neither ours nor an installed package's, and the exception."""
    if isinstance(error, Error):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    users = [f for f in own if "site-packages" not in f.filename and "dist-packages" not in f.filename
             and not f.filename.startswith("<")]
    chosen = (users or own or frames)[-1:]
    place = "".join(f"{f.filename}:{f.lineno} in {f.name}: " for f in chosen)
    text = " ".join(str(error).split())
    if len(text) > 500:
        text = text[:500] + "..."
    return f"{place}{type(error).__name__}{': ' if text else ''}{text}"
