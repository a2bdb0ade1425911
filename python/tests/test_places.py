"""Where passes run. No GPU is needed: what a GPU's place computes is computed here in the CPU's memory."""

import math

import pytest
import torch
from zerofleet.errors import Error
from zerofleet.places import Cpu, Gpu, place_of
from zerofleet.record import is_empty


@pytest.mark.skipif(torch.cuda.is_available(), reason="this PyTorch has a GPU")
def test_a_pytorch_without_cuda_is_named():
    assert isinstance(place_of("cpu", 0), Cpu)
    with pytest.raises(Error, match=r"device: cuda needs a PyTorch that can use this machine's GPU, and .* cannot"):
        place_of("cuda", 0)


@pytest.fixture
def gpu():
    """A GPU's place whose memory is the CPU's."""
    place = Gpu.__new__(Gpu)
    place.device = torch.device("cpu")
    place._result = torch.zeros(2, dtype=torch.float64)
    return place


def test_a_result_stays_on_the_device(gpu):
    address = gpu.result_of(torch.tensor(2.5), torch.tensor(4))
    assert Cpu().tensor_at(address, 2, torch.float64).tolist() == [2.5, 4]
    assert gpu.result_of(torch.tensor(3.5), 2) == address
    assert gpu._result.tolist() == [3.5, 2]
    gpu.result_of(torch.tensor(math.nan), 3)
    assert math.isnan(gpu._result[0])
    for weight in (-1, math.nan, math.inf):
        with pytest.raises(Error, match="the weight must be a finite number from 0"):
            gpu.result_of(torch.tensor(1.0), weight)


def test_a_micro_batch_without_targets_counts_nothing(gpu):
    assert is_empty(torch.tensor(math.nan), torch.tensor(0))
    assert not is_empty(torch.tensor(math.nan), 1)
    assert not is_empty(torch.tensor(1.0), 0)
    gpu.result_of(torch.tensor(math.nan), torch.tensor(0))
    assert gpu._result.tolist() == [0, 0]


def test_batches_move_with_what_is_no_tensor(gpu):
    batch = {"ids": torch.arange(3), "names": ["a", None]}
    moved = gpu.move(batch)
    assert moved["ids"].tolist() == [0, 1, 2] and moved["names"] == ["a", None]
