"""transformers' Trainer on Zerofleet: an existing script changes its import, and puts train() under its main.

    from zerofleet.integrations.transformers import Trainer          # was: from transformers import Trainer
    ...
    if __name__ == "__main__":
        Trainer(model=model, args=args, train_dataset=data, zerofleet={"parallel": {"workers": 2}}).train()

What the arguments mean is said in ``config_of``; keys of ``zerofleet``, a dict or a YAML file, come before them. After
``train`` the model has the trained weights.
"""

import json
import os

import transformers

from zerofleet.errors import Error
from zerofleet.task import length_of


class Build:
    """Makes a model of this class and configuration, in every worker."""

    def __init__(self, kind, config):
        self.kind, self.config = kind, config

    def __call__(self):
        return self.kind(self.config)


def loss_of(model, batch):
    """The mean that a model of transformers computes, as a sum and its number of targets."""
    labels = batch["labels"]
    causal = not getattr(model.config, "is_encoder_decoder", False) and labels.ndim == 2
    count = ((labels[:, 1:] if causal else labels) != -100).sum()
    return model(**batch).loss * count, count


def _schedule(args, steps):
    decays = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}
    kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    if kind not in decays:
        raise Error(f"lr_scheduler_type: {kind} is not supported; use {', '.join(decays)}")
    warmup = args.get_warmup_steps(steps) if kind != "constant" else 0
    schedule = {"decay": decays[kind], "warmup_steps": int(warmup)}
    if decays[kind] != "constant":
        schedule["min_learning_rate"] = 0.0
    return schedule


def _merge(into, given):
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
    return into


def _read(given):
    if given is None:
        return {}
    if isinstance(given, dict):
        return json.loads(json.dumps(given))
    import yaml

    with open(given, encoding="utf-8") as file:
        return yaml.safe_load(file) or {}


def config_of(args, samples, given=None):
    """Zerofleet's configuration of TrainingArguments, for a dataset of so many samples."""
    given = _read(given)
    workers = int(given.get("parallel", {}).get("workers", 1))
    micro = args.per_device_train_batch_size
    whole = micro * args.gradient_accumulation_steps * workers
    steps = args.max_steps if args.max_steps > 0 else max(1, int(samples // whole * args.num_train_epochs))
    if args.fp16:
        raise Error("fp16: is not supported; use bf16=True")
    every = args.save_steps if str(getattr(args.save_strategy, "value", args.save_strategy)) == "steps" else 0
    config = {
        "precision": "bf16" if args.bf16 else "fp32",
        "seed": args.seed,
        "steps": steps,
        "batch": {"global_sequences": whole, "micro_sequences": micro},
        "optimizer": {"learning_rate": args.learning_rate, "beta1": args.adam_beta1, "beta2": args.adam_beta2,
                      "epsilon": args.adam_epsilon, "weight_decay": args.weight_decay,
                      "grad_clip": float(args.max_grad_norm or 0)},
        "schedule": _schedule(args, steps),
        "checkpoint": {"dir": os.path.join(args.output_dir, "zerofleet"), "every_steps": int(every)},
    }
    if args.save_total_limit:
        config["checkpoint"]["keep"] = args.save_total_limit
    return _merge(config, given)


class Trainer(transformers.Trainer):
    """A Trainer whose ``train`` is a run of Zerofleet; everything else is transformers'."""

    def __init__(self, *args, zerofleet=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._zerofleet = zerofleet

    def train(self, resume_from_checkpoint=None, **kwargs):
        """Trains, from the newest checkpoint in checkpoint.dir unless ``resume_from_checkpoint`` is False."""
        import shutil

        from safetensors.torch import save_file

        import zerofleet

        if type(self).compute_loss is not transformers.Trainer.compute_loss:
            raise Error("compute_loss: is overridden; give the loss to zerofleet.train instead")
        config = config_of(self.args, length_of(self.train_dataset, "train_dataset"), self._zerofleet)
        folder = config["checkpoint"]["dir"]
        weights = os.path.join(folder, ".torch", "given")
        shutil.rmtree(weights, ignore_errors=True)
        os.makedirs(weights)
        save_file({n: p.detach().contiguous() for n, p in self.model.named_parameters()},
                  os.path.join(weights, "model.safetensors"))
        decayed = set(self.get_decay_parameter_names(self.model))
        evaluates = str(getattr(self.args.eval_strategy, "value", self.args.eval_strategy)) == "steps"
        validation = self.eval_dataset if evaluates else None
        if validation is not None:
            config.setdefault("evaluate", {}).setdefault("every_steps", int(self.args.eval_steps))
        zerofleet.train(Build(type(self.model), self.model.config), data=self.train_dataset, loss=loss_of,
                        collate=self.data_collator, validation=validation, weights=weights,
                        decay=lambda name, parameter: name in decayed, config=config,
                        options=[] if resume_from_checkpoint is not False else ["--resume", "none"])
        shutil.rmtree(weights, ignore_errors=True)
        return zerofleet.load(folder, self.model)
