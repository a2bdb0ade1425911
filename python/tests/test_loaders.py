"""Processes that read ahead, without a fleet: which batches are requested, and what happens when a process is lost."""

import os
import signal

import pytest
import torch

import models
from zerofleet.errors import Error
from zerofleet.loaders import Loaders, make_batch

SEED, MICRO, PER_STEP = 7, 2, 12


def order(position, count):
    from zerofleet import _core

    return _core.sample_order(SEED, 40, count, position)


@pytest.fixture
def loaders():
    made = Loaders(("name", "models:noisy"), 2, SEED, torch.float32, PER_STEP, order)
    yield made
    for loader in made._loaders:
        loader.process.kill()


def expected(position):
    return make_batch(models.noisy.data, torch.utils.data.default_collate, order(position, MICRO), SEED, position,
                      torch.float32)


def check(loaders, position):
    batch, want = loaders.batch(order(position, MICRO), position), expected(position)
    assert batch.keys() == want.keys() and all(torch.equal(batch[name], want[name]) for name in want)


def test_what_comes_next_is_read_ahead(loaders):
    """Rank 0 of two ranks: it reads the first six of every twelve positions; then a step is repeated."""
    for position in (0, 2, 4, 12, 14, 16, 24, 12, 14, 16, 24):
        check(loaders, position)
    assert {position for position, _ in loaders._wanted} == {24, 26, 28, 36}
    asked = {position for loader in loaders._loaders for position, _ in loader.asked}
    assert asked | {position for position, _ in loaders._ready} >= {26, 28, 36}


def test_a_process_that_is_lost_is_replaced(loaders):
    check(loaders, 0)
    for loader in list(loaders._loaders):
        os.kill(loader.process.pid, signal.SIGKILL)
    for position in (2, 4, 12):
        check(loaders, position)


def test_an_error_comes_with_the_batch_that_it_is_of(loaders):
    check(loaders, 0)
    with pytest.raises(Error, match="IndexError"):
        loaders.batch([1000, 1001], 50)
    check(loaders, 2)


def test_long_requests_and_long_answers_do_not_wait_for_each_other():
    count = 60000
    loaders = Loaders(("name", "models:numbers"), 1, SEED, torch.float32, count, lambda first, n: range(first, first + n))
    signal.signal(signal.SIGALRM, lambda number, frame: pytest.fail("waits for ever"))
    signal.alarm(200)
    try:
        for first in (100000, 100000 + count, 100000 + 2 * count):
            batch = loaders.batch(range(first, first + count), first)
            assert torch.equal(batch[:, 7], torch.arange(first, first + count))
    finally:
        signal.alarm(0)
        for loader in loaders._loaders:
            loader.process.kill()
