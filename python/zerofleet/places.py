"""Where a worker's passes run: on the CPU, or on the GPU of the worker.

A place says how a tensor lies over the engine's memory, in which order its work is done, and what its bits depend on. ``Gpu``
has never run on a GPU: none was at hand.
"""

import contextlib
import ctypes
import os

import torch
from torch.utils import _pytree as pytree

from zerofleet.errors import Error
from zerofleet.record import numbers_of


class Cpu:
    """The engine calls and is called in one thread, and each call has done its work when it returns."""

    device = torch.device("cpu")

    def tensor_at(self, address, elements, dtype):
        """A tensor over memory that it does not own."""
        itemsize = torch.empty(0, dtype=dtype).element_size()
        memory = (ctypes.c_uint8 * (elements * itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype, count=elements)

    def in_order_of(self, units):
        """A context in which work is done in the order of the engine's stream."""
        return contextlib.nullcontext()

    def move(self, batch):
        """The batch, in this place's memory."""
        return batch

    def result_of(self, loss, weight):
        """A pass's loss and weight, as the engine takes them."""
        return numbers_of(loss, weight)

    def limit_memory(self, most):
        """Limits the bytes that passes allocate, where PyTorch can."""

    def facts(self):
        return [("PyTorch's instruction set", torch.backends.cpu.get_cpu_capability())]


class _Memory:
    """Memory of a GPU as an object that PyTorch can look at, without a copy."""

    def __init__(self, address, elements, kind):
        self.__cuda_array_interface__ = {"shape": (elements,), "typestr": kind, "data": (address, False), "version": 2}


class Gpu:
    """The GPU of a number. PyTorch's work is enqueued on the engine's stream, so that neither waits for the other."""

    def __init__(self, number):
        if not torch.cuda.is_available():
            raise Error(f"device: cuda needs a PyTorch that can use this machine's GPU, and {torch.__version__} cannot; install one "
                        "built for CUDA, or use cpu")
        # cuBLAS reads it when it is first used: one workspace for each stream, so that sums have one order.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cudnn.benchmark = False
        self.device = torch.device("cuda", number)
        torch.cuda.set_device(self.device)
        self._streams = {}  # by handle
        self._result = torch.zeros(2, dtype=torch.float64, device=self.device)

    def tensor_at(self, address, elements, dtype):
        kinds = {torch.float32: "<f4", torch.float64: "<f8", torch.bfloat16: "<i2"}  # the interface has no bfloat16
        return torch.as_tensor(_Memory(address, elements, kinds[dtype]), device=self.device).view(dtype)

    @contextlib.contextmanager
    def in_order_of(self, units):
        handle = units.stream
        if handle not in self._streams:
            self._streams = {handle: torch.cuda.ExternalStream(handle, device=self.device)}  # a view has one
        # A thread of autograd's would call the engine while this one is in it.
        with torch.cuda.stream(self._streams[handle]), torch.autograd.set_multithreading_enabled(False):
            yield

    def move(self, batch):
        return pytree.tree_map(lambda leaf: leaf.to(self.device, non_blocking=True) if isinstance(leaf, torch.Tensor) else leaf,
                               batch)

    def result_of(self, loss, weight):
        """The address of both, which the engine reads in the stream's order."""
        if not 0 <= float(weight) < float("inf"):
            numbers_of(loss, weight)  # raises
        self._result[0] = torch.where(loss == loss, loss, 0) if float(weight) == 0 else loss
        self._result[1] = weight
        return self._result.data_ptr()

    def limit_memory(self, most):
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(max(0.0, min(1.0, most / total)), self.device)

    def facts(self):
        return [("PyTorch's CUDA", str(torch.version.cuda)), ("PyTorch's cuDNN", str(torch.backends.cudnn.version()))]


def place_of(kind, number):
    """The place of a device of the engine: its kind, and the number by which CUDA knows it in this process."""
    return Gpu(number) if kind == "cuda" else Cpu()
