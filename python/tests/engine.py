"""An engine in Python that keeps a unit's values only while it is in use, and poisons its place otherwise."""

import torch


class PoisoningEngine:
    """Stands for zerofleet._core.Units in passes.Passes, over plain tensors: one place for each unit."""

    stream = 0

    def __init__(self, foreign, values, dtype):
        self.units = [[t["name"] for t in u["tensors"]] for u in foreign["units"]]
        self.values = [torch.cat([values[n].reshape(-1) for n in names]).to(dtype) for names in self.units]
        self.places = [torch.full_like(v, float("nan")) for v in self.values]
        self.sums = [torch.zeros(v.numel()) for v in self.values]
        self.shapes = {t["name"]: t["shape"] for u in foreign["units"] for t in u["tensors"]}
        self.events = []

    def acquire(self, unit):
        self.events.append(("ACQUIRE", unit))
        self.places[unit].copy_(self.values[unit])
        return self.places[unit].data_ptr()

    def release(self, unit):
        self.events.append(("RELEASE", unit))
        self.places[unit].fill_(float("nan"))

    def gradient(self, unit):
        if ("GRADIENT", unit) not in self.events:
            self.events.append(("GRADIENT", unit))
        return self.sums[unit].data_ptr()

    def deliver(self, unit):
        self.events.append(("DELIVER", unit))

    def gradients(self):
        out = {}
        for names, sums in zip(self.units, self.sums):
            at = 0
            for name in names:
                count = 1
                for side in self.shapes[name]:
                    count *= side
                out[name] = sums[at:at + count].view(self.shapes[name])
                at += count
        return out
