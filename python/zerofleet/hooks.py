"""Module hooks that say when a pass needs a unit, and when its gradients arrive.

The same hooks record a pass without memory (record.py) and run it over the engine's memory (passes.py): both give them a
``sink`` with ``acquire``, ``release``, ``gradient(unit, name, grad)`` and ``deliver``.

In the forward a unit is held from the beginning of its module's call to the end. In the backward it is held from the time
that the gradient of the module's output is there until those of its inputs and of all its parameters are. A module that
runs again in the backward (torch.utils.checkpoint) holds its unit a second time; ``_StopRecomputationError`` ends that call
early, which is why the hooks are ``always_call``.
"""

import dataclasses

import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.utils import _pytree as pytree


class _Call:
    """The backward of one call of a module that holds units."""

    __slots__ = ("units", "opened", "inputs_done", "closed")

    def __init__(self, units, inputs_done):
        self.units = units  # {unit: whether it is the unit's own module}
        self.opened = False
        self.inputs_done = inputs_done
        self.closed = False


def _tensors_with_gradient(tree):
    found = []
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            if leaf.requires_grad:
                found.append(leaf)
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            found += _tensors_with_gradient([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])
    return found


class Hooks:
    """The hooks of one module. ``used`` has the parameters whose gradients are expected; None if that is not known yet."""

    def __init__(self, model, layout, used=None):
        self.layout = layout
        self.sink = None  # the sink of the pass in progress; None between passes
        self.used = used
        self._handles = []
        self._expected = [0] * len(layout.units)
        for name in used or ():
            self._expected[layout.unit_of[name]] += 1
        for _, module, units in layout.holders:
            self._add_holder(module, units)
        for name in layout.trained:
            self._add_parameter(name)

    def remove(self):
        for handle in self._handles:
            handle.remove()

    def _add_holder(self, module, units):
        self._handles.append(module.register_forward_pre_hook(
            lambda m, args, kwargs: self._before(units), with_kwargs=True, prepend=True))
        self._handles.append(module.register_forward_hook(
            lambda m, args, kwargs, output: self._after(units, args, kwargs, output), with_kwargs=True,
            always_call=True))

    def _add_parameter(self, name):
        unit = self.layout.unit_of[name]
        for module, attribute in self.layout.places[name][:1]:
            parameter = module._parameters[attribute]
            self._handles.append(parameter.register_post_accumulate_grad_hook(
                lambda p: self._take_gradient(unit, name, p)))

    # --- A pass

    def holds(self, unit):
        """Whether the pass in progress may read the unit's values now."""
        return self._held[unit] > 0

    def begin(self, sink):
        """Begins a pass, whose events go to ``sink`` until ``end``."""
        self.sink = sink
        self._held = [0] * len(self.layout.units)
        self._arrived = [set() for _ in self.layout.units]
        self._calls = [[] for _ in self.layout.units]  # open calls, by unit
        for unit in self.layout.roots:
            self._hold(unit)

    def end(self):
        """Ends the pass, and releases the units that are still held."""
        sink, self.sink = self.sink, None
        for unit, count in enumerate(self._held):
            if count > 0:
                sink.release(unit)

    def _hold(self, unit):
        self._held[unit] += 1
        if self._held[unit] == 1:
            self.sink.acquire(unit)

    def _let_go(self, unit):
        self._held[unit] -= 1
        if self._held[unit] == 0:
            self.sink.release(unit)

    def _before(self, units):
        if self.sink is None:
            return
        for unit in units:
            self._hold(unit)

    def _after(self, units, args, kwargs, output):
        if self.sink is None:
            return
        for unit in units:
            self._let_go(unit)
        if not torch.is_grad_enabled():
            return
        outputs = _tensors_with_gradient(output)
        if not outputs:
            return
        inputs = [t for t in _tensors_with_gradient((args, kwargs)) if not any(t is o for o in outputs)]
        # Without inputs nothing says when the module's backward has ended, if not the gradients of all its parameters: a frozen
        # unit is then held to the pass's end.
        call = _Call(units, not inputs and not any(self.layout.units[unit].frozen for unit in units))
        for tensor in outputs:
            tensor.register_hook(lambda grad: self._open(call))
        if inputs:
            register_multi_grad_hook(inputs, lambda grads: self._inputs_done(call))

    def _open(self, call):
        if call.opened or self.sink is None:
            return
        call.opened = True
        for unit in call.units:
            self._hold(unit)
            self._calls[unit].append(call)

    def _inputs_done(self, call):
        call.inputs_done = True
        self._try_close(call)

    def _complete(self, unit):
        return self.used is not None and len(self._arrived[unit]) >= self._expected[unit]

    def _try_close(self, call):
        if self.sink is None or not call.opened or call.closed or not call.inputs_done:
            return
        if not all(self._complete(unit) for unit, own in call.units.items() if own):
            return
        call.closed = True
        for unit in call.units:
            self._calls[unit].remove(call)
            self._let_go(unit)

    def _take_gradient(self, unit, name, parameter):
        grad, parameter.grad = parameter.grad, None
        if self.sink is None:
            return
        self.sink.gradient(unit, name, grad)
        self._arrived[unit].add(name)
        if not self._complete(unit):
            return
        self.sink.deliver(unit)
        for call in list(self._calls[unit]):
            self._try_close(call)
