"""A worker's side of zerofleet.steps, without an engine: what its loop answers."""

import queue

import pytest
import torch

from zerofleet import loop
from zerofleet.errors import Error


class Passes:
    """Passes of one number, which is the loss. ``lost``: the passes at whose beginning a peer is lost."""

    def __init__(self, lost=()):
        self.lost, self.begun, self.ended = set(lost), [], 0

    def batch(self, samples, position):
        return torch.tensor(float(position), requires_grad=True)

    def begin(self, units, first):
        self.begun.append(units)
        if units in self.lost:
            raise Error("a peer is lost", 4)

    def move(self, batch):
        return batch

    def set_modes(self):
        pass

    def result_of(self, loss, weight):
        return float(loss), float(weight)

    def backward(self, loss, weight):
        loss.backward()

    def end(self):
        self.ended += 1


def worker(passes, requests):
    made = loop._Worker.__new__(loop._Worker)
    made._passes, made._asked, made._answers, made._unanswered = passes, queue.Queue(), queue.Queue(), False
    for number in range(requests):
        made._asked.put(("train", number, [number], number, number == 0))
    return made


def test_a_peer_that_is_lost_at_the_beginning_of_a_pass_does_not_end_the_loop():
    passes = Passes(lost=[0])
    run = worker(passes, 2)
    for micro in run:
        with micro:
            micro.backward(micro.batch * 2, 3)
        break
    assert str(run._answers.get_nowait()) == "a peer is lost"
    assert run._answers.get_nowait() == (2.0, 3.0)
    assert passes.begun == [0, 1] and passes.ended == 1


def test_an_exception_in_the_body_is_the_answer():
    run = worker(Passes(), 1)
    for micro in run:
        with micro:
            raise KeyError("seven")
        break
    with pytest.raises(KeyError, match="seven"):
        raise run._answers.get_nowait()
