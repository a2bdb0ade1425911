"""transformers' Trainer on Zerofleet: an existing script changes its import, and puts train() under its main.

    from zerofleet.integrations.transformers import Trainer          # was: from transformers import Trainer
    ...
    if __name__ == "__main__":
        Trainer(model=model, args=args, train_dataset=data, zerofleet={"parallel": {"workers": 2}}).train()

``config_of`` translates the arguments; keys of ``zerofleet``, a dict or a YAML file, override them. After ``train`` the
model has the trained weights.
"""

import copy
import json
import math
import os

import torch
import transformers
from torch import nn

from zerofleet.errors import Error
from zerofleet.task import length_of

# transformers' losses whose labels are the inputs' own next tokens; a class without a loss_type has this one too.
_NEXT_TOKEN = (None, "ForCausalLM", "ForConditionalGeneration")


class Build:
    """Makes copies of a module as it is now, with parameters on meta: its class, which parameters are trained, adapters."""

    def __init__(self, model):
        on_meta = {}
        for parameter in model.parameters():
            made = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad)
            made.__dict__.update(parameter.__dict__)
            on_meta[id(parameter)] = made
        self._model = copy.deepcopy(model, on_meta)
        self._model.train()

    def __call__(self):
        return copy.deepcopy(self._model)


def loss_of(model, batch):
    """The mean loss that a model of transformers computes, as a sum and the number of targets."""
    if "labels" not in batch:
        raise Error(f"train_dataset: batches have no labels, but {', '.join(batch)}; a loss without them must be given to "
                    "zerofleet.train")
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    labels = batch["labels"]
    adapters = getattr(model, "active_peft_config", None)
    # The last of PEFT's virtual tokens predicts the first label, unless they are only keys and values.
    prompted = (getattr(adapters, "is_prompt_learning", False)
                and _value(adapters.peft_type) not in ("PREFIX_TUNING", "CARTRIDGE"))
    shifted = (labels.ndim == 2 and not prompted and not getattr(inner.config, "is_encoder_decoder", False)
               and getattr(inner, "loss_type", None) in _NEXT_TOKEN)
    count = ((labels[:, 1:] if shifted else labels) != -100).sum()
    return model(**batch).loss * count, count


def _value(setting):
    return str(getattr(setting, "value", setting))


# Arguments that would change the numbers of a run and are not supported: the name, the values that are allowed, advice.
_ONLY = (
    ("optim", lambda v: _value(v) in ("adamw_torch", "adamw_torch_fused"), "use adamw_torch, or another optimizer of zerofleet={...}"),
    ("fp16", lambda v: not v, "use bf16=True"),
    ("label_smoothing_factor", lambda v: not v, "give the loss to zerofleet.train"),
    ("neftune_noise_alpha", lambda v: not v, "leave it out"),
    ("use_liger_kernel", lambda v: not v, "leave it out"),
    ("torch_compile", lambda v: not v, "leave it out"),
    ("deepspeed", lambda v: not v, "translate it by `zerofleet config --from-deepspeed`, into zerofleet={...}"),
    ("fsdp", lambda v: not v, "use zerofleet={'parallel': {'zero_stage': 3}}"),
    ("load_best_model_at_end", lambda v: not v, "leave it out"),
    ("train_sampling_strategy", lambda v: _value(v) == "random", "leave it out: samples come in an order of the seed"),
    ("lr_scheduler_kwargs", lambda v: not v, "use zerofleet={'schedule': {...}}"),
)


def check_arguments(args):
    """Raises Error for an argument that would change the numbers and is not supported."""
    for name, allows, instead in _ONLY:
        value = getattr(args, name, None)
        if value is not None and not allows(value):
            raise Error(f"{name}: {_value(value)} is not supported; {instead}")


def _every(strategy, steps, name, samples, whole):
    """The interval in steps of saves or evaluations; 0: never."""
    strategy = _value(strategy)
    if strategy == "no":
        return 0
    if strategy == "epoch":
        return max(1, math.ceil(samples / whole))
    if strategy != "steps":
        raise Error(f"{name}_strategy: {strategy} is not supported; use steps, epoch or no")
    if steps is None or steps < 1:
        raise Error(f"{name}_steps: must be a number of steps, got {steps}")
    return int(steps)


def _schedule(args, steps):
    decays = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}
    kind = _value(args.lr_scheduler_type)
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
    """Zerofleet's configuration for TrainingArguments and a dataset of ``samples`` samples."""
    given = _read(given)
    workers = int(given.get("parallel", {}).get("workers", 1))
    micro = args.per_device_train_batch_size
    whole = given.get("batch", {}).get("global_sequences", micro * args.gradient_accumulation_steps * workers)
    check_arguments(args)
    epochs = given.pop("epochs", args.num_train_epochs if args.max_steps <= 0 else None)
    steps = given.get("steps") or (max(1, math.ceil(epochs * samples / whole)) if epochs else args.max_steps)
    every = _every(args.save_strategy, args.save_steps, "save", samples, whole)
    config = {
        "precision": "bf16" if args.bf16 else "fp32",
        "seed": args.seed,
        "steps": steps,
        "batch": {"global_sequences": whole, "micro_sequences": micro},
        "optimizer": {"learning_rate": args.learning_rate, "beta1": args.adam_beta1, "beta2": args.adam_beta2,
                      "epsilon": args.adam_epsilon, "weight_decay": args.weight_decay,
                      "grad_clip": float(args.max_grad_norm or 0)},
        "schedule": _schedule(args, steps),
        "checkpoint": {"dir": os.path.join(args.output_dir, "zerofleet"), "every_steps": every},
    }
    if args.save_total_limit:
        config["checkpoint"]["keep"] = args.save_total_limit
    return _merge(config, given)


# What a script may have of its own in a subclass of the Trainer, and that a run would pass over: the method, advice.
_OWN = {
    "training_step": "give the loss to zerofleet.train",
    "get_batch_samples": "give the loss to zerofleet.train",
    "create_optimizer": "the optimizer is that of the arguments, or of zerofleet={...}",
    "create_scheduler": "the schedule is that of the arguments, or of zerofleet={...}",
    "create_optimizer_and_scheduler": "both are those of the arguments, or of zerofleet={...}",
    "get_optimizer_cls_and_kwargs": "the optimizer is that of the arguments, or of zerofleet={...}",
    "get_train_dataloader": "samples come in an order of the seed",
    "_get_train_sampler": "samples come in an order of the seed",
}


class Trainer(transformers.Trainer):
    """A Trainer whose ``train`` is a run of Zerofleet; everything else is transformers'.

    ``buffers`` is that of ``zerofleet.train``. Callbacks are not called, and only the run's own output and report are logged.
    """

    def __init__(self, *args, zerofleet=None, buffers=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._zerofleet, self._buffers = zerofleet, buffers

    def train(self, resume_from_checkpoint=None, **kwargs):
        """Trains, from the newest checkpoint in checkpoint.dir unless ``resume_from_checkpoint`` is False, or the path of
        another of Zerofleet's.

        Returns transformers' TrainOutput, whose loss is the mean of the newest steps, at most 256. Raises SystemExit with
        the run's exit code if that is not 0."""
        import zerofleet

        from zerofleet.launch import exit_in_one_line

        try:
            self._check()
            config = config_of(self.args, length_of(self.train_dataset, "train_dataset"), self._zerofleet)
            folder = config["checkpoint"]["dir"]
            weights = self._write_weights(folder)
            decayed = set(self.get_decay_parameter_names(self.model))
            validation = self._validation(config)
            build = Build(self.model)
        except Error as error:
            exit_in_one_line(error)
        options = []
        if resume_from_checkpoint is False:
            options = ["--resume", "none"]
        elif resume_from_checkpoint not in (None, True):
            options = ["--resume", os.fspath(resume_from_checkpoint)]
        zerofleet.train(build, data=self._columns(self.train_dataset), loss=loss_of, validation=validation,
                        collate=self._get_collator_with_removed_columns(self.data_collator, description="training"),
                        weights=weights, decay=lambda name, parameter: name in decayed, config=config,
                        loader_workers=self.args.dataloader_num_workers, buffers=self._buffers, options=options)
        zerofleet.load(folder, self.model)
        return self._output(folder)

    def _check(self):
        if type(self).compute_loss is not transformers.Trainer.compute_loss or self.compute_loss_func is not None:
            raise Error("compute_loss: is the script's own; give the loss to zerofleet.train instead")
        for name, instead in _OWN.items():
            if getattr(type(self), name, None) is not getattr(transformers.Trainer, name, None):
                raise Error(f"{name}: is the script's own, and would not be called; {instead}")
        if self.optimizer is not None or self.lr_scheduler is not None or self.optimizer_cls_and_kwargs is not None:
            raise Error("optimizers: must be left out; the optimizer is that of the arguments, or of zerofleet={...}")

    def _columns(self, dataset):
        """The dataset; if it is one of the library `datasets`, without columns that the model does not take."""
        return self._remove_unused_columns(dataset) if hasattr(dataset, "column_names") else dataset

    def _validation(self, config):
        if _value(self.args.eval_strategy) == "no" or self.eval_dataset is None:
            return None
        if isinstance(self.eval_dataset, dict):
            raise Error("eval_dataset: must be one dataset, got a dict of them")
        every = _every(self.args.eval_strategy, self.args.eval_steps, "eval",
                       length_of(self.train_dataset, "train_dataset"), config["batch"]["global_sequences"])
        evaluate = config.setdefault("evaluate", {})
        evaluate.setdefault("every_steps", every)
        batch = config["batch"]["global_sequences"]
        evaluate.setdefault("batches", math.ceil(length_of(self.eval_dataset, "eval_dataset") / batch))
        return self._columns(self.eval_dataset)

    def _write_weights(self, folder):
        """Writes the model's weights, also frozen ones, from which the run's first checkpoint is made."""
        from safetensors.torch import save_file

        if getattr(self.args, "activation_checkpointing", None) or self.args.gradient_checkpointing:
            given = (getattr(self.args, "activation_checkpointing_kwargs", None)
                     or self.args.gradient_checkpointing_kwargs or {})
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False, **given})
        weights = os.path.join(folder, ".torch", "given")
        os.makedirs(weights, exist_ok=True)
        path = os.path.join(weights, "model.safetensors")
        save_file({n: p.detach().contiguous() for n, p in self.model.named_parameters()}, f"{path}.{os.getpid()}")
        os.replace(f"{path}.{os.getpid()}", path)
        return weights

    def _output(self, folder):
        import zerofleet

        checkpoint = zerofleet.Checkpoint(folder)
        losses = list(checkpoint.losses.values())
        loss = sum(losses) / len(losses) if losses else float("nan")
        self.state.global_step = checkpoint.step
        return transformers.trainer_utils.TrainOutput(checkpoint.step, loss, {"train_loss": loss})
