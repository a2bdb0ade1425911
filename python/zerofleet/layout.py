"""Which parameters belong to which unit, and which modules use a unit."""

import fnmatch
from contextlib import contextmanager
from dataclasses import dataclass
from typing import List

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from zerofleet.errors import Error

ROOT = "root"  # the unit of all parameters that belong to no other; held during the whole pass


@dataclass
class Unit:
    """Parameters, by name, that are gathered and released together; all of them are trained, or none."""

    name: str
    module: str  # the module around whose calls the unit is held; empty: held during the whole pass
    parameters: List[str]
    frozen: bool = False


@contextmanager
def meta_parameters():
    """A context in which parameters are registered on meta, so that a module of any size can be made; buffers are real."""
    register = nn.Module.register_parameter
    replaced = WeakTensorKeyDictionary()  # by the parameter that was given, which may be registered in several places

    def on_meta(module, name, parameter):
        register(module, name, parameter)
        if parameter is None or parameter.device.type == "meta":
            return
        if nn.parameter.is_lazy(parameter):
            raise Error(f"build: parameter {name} of {type(module).__name__} has no shape yet; give it one, as in nn.Linear "
                        "in the place of nn.LazyLinear")
        made = replaced.get(parameter)
        if made is None:
            made = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad)
            made.__dict__.update(parameter.__dict__)
            replaced[parameter] = made
        module._parameters[name] = made

    nn.Module.register_parameter = on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def build_on_meta(build):
    """The user's module with parameters on meta."""
    with meta_parameters():
        model = build()
    if not isinstance(model, nn.Module):
        raise Error(f"build: must return a torch.nn.Module, got {type(model).__name__}")
    return model


class Modes:
    """A module's train(), except that modules that ``build`` has put into eval() within a module in train() stay there."""

    def __init__(self, model):
        self._model = model
        self._kept = [m for m in model.modules() if not m.training] if model.training else []

    def train(self):
        self._model.train()
        for module in self._kept:
            module.training = False


def _called(name, module):
    """The names of the modules in ``module`` that are called: itself, or those within it if it has no forward, as a
    ModuleList."""
    if type(module).forward is not nn.Module.forward:
        return [name]
    return [found for child, within in module.named_children() for found in _called(f"{name}.{child}", within)]


def _default_units(model):
    """The members of every ModuleList or Sequential with at least two members, all of one class, except of those that are
    within another's members. A member that is never called, such as a ModuleList, stands for its own members."""
    names = []
    for name, module in model.named_modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) < 2:
            continue
        if any(f"{name}.".startswith(f"{unit}.") or unit.startswith(f"{name}.") for unit in names):
            continue
        members = list(module)
        if len({type(m) for m in members}) == 1 and any(True for _ in members[0].parameters()):
            for i, member in enumerate(members):
                names += _called(f"{name}.{i}", member)
    return names


def find_units(model, wanted):
    """The names of the modules that are units, in the order of ``model``'s modules."""
    if wanted is None:
        return _default_units(model)
    named = [(name, module) for name, module in model.named_modules() if name]
    found = []
    for pattern in wanted:
        if isinstance(pattern, type):
            pattern = pattern.__name__
        hits = [name for name, module in named
                if type(module).__name__ == pattern or fnmatch.fnmatchcase(name, pattern)]
        if not hits:
            classes = sorted({type(m).__name__ for _, m in named})
            raise Error(f"units: no module is called, or of a class called, {pattern}; the classes are "
                        f"{', '.join(classes[:12])}{', ...' if len(classes) > 12 else ''}")
        found += hits
    order = {name: i for i, (name, _) in enumerate(named)}
    return sorted(set(found), key=order.__getitem__)


class Layout:
    """Which unit each parameter belongs to; tied parameters go by their first name."""

    def __init__(self, model, units):
        self.units = units
        self.unit_of = {name: u for u, unit in enumerate(units) for name in unit.parameters}
        self.trained = [name for unit in units if not unit.frozen for name in unit.parameters]
        self.parameters = dict(model.named_parameters())
        every = dict(model.named_parameters(remove_duplicate=False))
        first = {id(p): name for name, p in self.parameters.items()}
        self.aliases = {name: first[id(p)] for name, p in every.items() if name != first[id(p)]}
        self.places = {}  # name -> [(module, attribute)], every place where the parameter is registered
        for module_name, module in model.named_modules():
            for attribute, p in module._parameters.items():
                if p is not None:
                    self.places.setdefault(first[id(p)], []).append((module, attribute))
        self._find_holders(model)

    def check_trained(self):
        """Raises Error if a parameter has begun or ceased to be trained since ``build`` returned."""
        for name, places in self.places.items():
            module, attribute = places[0]
            now, then = module._parameters[attribute].requires_grad, self.parameters[name].requires_grad
            if now != then:
                raise Error(f"build: requires_grad of parameter {name} is {now} in a pass, and was {then} when build returned; "
                            "what is trained is decided there, for the whole run")

    def _find_holders(self, model):
        """Finds the modules around which units are held: each unit's own, and modules outside it that share its parameters."""
        modules = dict(model.named_modules())
        self.roots = [u for u, unit in enumerate(self.units) if not unit.module]
        holders = {}
        for u, unit in enumerate(self.units):
            if unit.module:
                holders.setdefault(unit.module, {})[u] = True
        for name, module in modules.items():
            for attribute, p in module._parameters.items():
                if p is None:
                    continue
                full = f"{name}.{attribute}" if name else attribute
                u = self.unit_of[self.aliases.get(full, full)]
                owner = self.units[u].module
                if owner and name != owner and not name.startswith(f"{owner}."):
                    holders.setdefault(name, {}).setdefault(u, False)
        # (name, module, {unit: whether it is the unit's own module})
        self.holders = [(name, modules[name], units) for name, units in holders.items()]


def layout_of(model, wanted):
    """The layout of a module with the units that the user wants: the root first, then the others in the module's order."""
    names = find_units(model, wanted)
    found = {(name, frozen): [] for name in ["", *names] for frozen in (False, True)}
    for name, p in model.named_parameters():
        if not p.is_floating_point():
            raise Error(f"build: parameter {name} is of {p.dtype}, and parameters are trained as real numbers; make it a "
                        "buffer, or of a complex one two parameters (torch.view_as_real)")
        owners = [unit for unit in names if name.startswith(f"{unit}.")]
        found[max(owners, key=len, default=""), not p.requires_grad].append(name)
    units = []
    for (module, frozen), parameters in found.items():
        if parameters:
            name = module or ROOT
            units.append(Unit(f"{name} (frozen)" if frozen else name, module, parameters, frozen))
    if all(unit.frozen for unit in units):
        raise Error("build: the module has no parameter that requires a gradient")
    return Layout(model, units)


def layout_from(model, foreign):
    """The recorded layout, for the module that a worker has built. Raises Error if it is not the recorded module."""
    recorded = [u for u in foreign["units"] if not u["tensors"][0].get("buffer")]  # without that of buffers (buffers.py)
    units = [Unit(u["name"], u["module"], [t["name"] for t in u["tensors"]], u["frozen"]) for u in recorded]

    def text(shape, frozen):
        return f"{list(shape)}{', frozen' if frozen else ''}"

    there = {t["name"]: text(t["shape"], u["frozen"]) for u in recorded for t in u["tensors"]}
    here = {name: text(p.shape, not p.requires_grad) for name, p in model.named_parameters()}
    for name in [*there, *here]:
        if here.get(name) != there.get(name):
            raise Error(f"build: parameter {name} is {here.get(name, 'missing')} here, and "
                        f"{there.get(name, 'missing')} where the run was started: build must make the same module "
                        "everywhere")
    return Layout(model, units)
