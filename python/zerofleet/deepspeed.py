"""Translates DeepSpeed's JSON configuration into one of Zerofleet's, and says what became of each key."""

import json

from zerofleet.errors import Error

_AUTO = "auto"  # a value that transformers' Trainer fills in from its own arguments

# Keys without an effect on what Zerofleet computes, each with what is said about it.
_WITHOUT_EFFECT = {
    "steps_per_print": "every step is reported",
    "wall_clock_breakdown": "phases are in the metrics",
    "dump_state": "the report has the configuration",
    "train_batch_size": None,
    "zero_allow_untested_optimizer": "there is one AdamW",
    "zero_force_ds_cpu_optimizer": "there is one AdamW",
    "memory_breakdown": "the report has the memory of each rank",
    "prescale_gradients": "gradients are divided once, at the update",
    "gradient_predivide_factor": "gradients are divided once, at the update",
    "communication_data_type": "gradients travel in the compute type and are summed in fp32",
    "seq_parallel_communication_data_type": "there is no sequence parallelism for modules",
    "tensorboard": "train --tensorboard DIR",
    "wandb": "zerofleet report",
    "csv_monitor": "train --report FILE",
    "comms_logger": "the report has each rank's collectives",
    "flops_profiler": "the report has each step's MFU",
}
_ZERO_WITHOUT_EFFECT = {
    "allgather_partitions": "parameters are gathered a unit at a time",
    "allgather_bucket_size": "parameters are gathered a unit at a time",
    "reduce_bucket_size": "gradients are reduced a unit at a time",
    "overlap_comm": "communication always runs beside the passes",
    "reduce_scatter": "gradients are always reduced by reduce-scatter",
    "contiguous_gradients": "gradients are always in one memory",
    "sub_group_size": "the optimizer works on tiles of a fixed size",
    "stage3_prefetch_bucket_size": "the next unit is always gathered ahead",
    "stage3_param_persistence_threshold": "small parameters belong to the unit around them",
    "stage3_max_live_parameters": "units have slots that are planned beforehand",
    "stage3_max_reuse_distance": "units have slots that are planned beforehand",
    "stage3_gather_16bit_weights_on_model_save": "`zerofleet checkpoint export` writes whole weights",
    "round_robin_gradients": "every unit is shared by all ranks",
    "ignore_unused_parameters": "parameters without a gradient get zeros",
    "elastic_checkpoint": "any number of workers reads a checkpoint",
    "load_from_fp32_weights": "master weights are fp32 in every checkpoint",
}


# Settings of PyTorch's optimizers that change the update, each with the value that leaves it as it is here.
_ONLY = {"amsgrad": False, "bias_correction": True, "dampening": 0, "maximize": False, "nesterov": False}

# DeepSpeed's defaults, where Zerofleet's are different.
_OPTIMIZER_DEFAULTS = {
    "adamw": {"lr.learning_rate": 1e-3, "betas.beta1": 0.9, "betas.beta2": 0.999, "eps.epsilon": 1e-8,
              "weight_decay": 0.0},
    "sgd": {"lr.learning_rate": 1e-3, "momentum": 0.0, "weight_decay": 0.0},
}


class _Translation:
    def __init__(self):
        self.config = {}
        self.fates = []

    def set(self, source, key, value):
        section = self.config
        *path, last = key.split(".")
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
        self.fates.append((source, f"{key}: {json.dumps(value)}"))

    def note(self, source, text):
        self.fates.append((source, text))


def _is_auto(value):
    return value == _AUTO


def _batch(given, workers, out):
    micro, steps = given.get("train_micro_batch_size_per_gpu"), given.get("gradient_accumulation_steps", 1)
    whole = given.get("train_batch_size")
    known = {k: v for k, v in (("micro", micro), ("steps", steps), ("whole", whole)) if v is not None and not _is_auto(v)}
    if "micro" in known:
        out.set("train_micro_batch_size_per_gpu", "batch.micro_sequences", int(known["micro"]))
    if "whole" in known:
        out.set("train_batch_size", "batch.global_sequences", int(known["whole"]))
    elif "micro" in known and "steps" in known:
        out.set("gradient_accumulation_steps", "batch.global_sequences",
                int(known["micro"]) * int(known["steps"]) * workers)
        return
    if "micro" not in known and {"whole", "steps"} <= known.keys():
        shares = int(known["steps"]) * workers
        if shares < 1 or int(known["whole"]) % shares != 0:
            raise Error(f"train_batch_size: {known['whole']} is no multiple of gradient_accumulation_steps, "
                        f"{known['steps']}, times {workers} workers")
        if "gradient_accumulation_steps" in given:
            out.set("gradient_accumulation_steps", "batch.micro_sequences", int(known["whole"]) // shares)
            return
    if "gradient_accumulation_steps" in given:
        out.note("gradient_accumulation_steps", "follows from batch.global_sequences, batch.micro_sequences and the "
                 "number of workers")


def _precision(given, out):
    wanted = {name: given[name].get("enabled") for name in ("bf16", "bfloat16", "fp16") if name in given}
    enabled = {name for name, value in wanted.items() if value and not _is_auto(value)}
    for name in ("bf16", "bfloat16", "fp16"):
        if name not in given:
            continue
        if name == "fp16" and name in enabled:
            out.set("fp16.enabled", "precision", "bf16")
            out.note("fp16.enabled", "fp16 is not supported with modules: bf16 in its place, which needs no loss scale")
        elif name in enabled:
            out.set(f"{name}.enabled", "precision", "bf16")
        elif _is_auto(wanted[name]):
            out.note(f"{name}.enabled", "auto: give it in precision of the configuration")
        for key in given[name]:
            if key != "enabled":
                out.note(f"{name}.{key}", "left out: there is no loss scale in bf16 and fp32")
    if not enabled and _AUTO not in wanted.values():
        out.set("(no bf16 or fp16)", "precision", "fp32")


def _optimizer(given, out):
    section = given.get("optimizer")
    if not section:
        out.note("(no optimizer)", "it is the script's: give it in optimizer of the configuration")
        return
    kind, params = str(section.get("type", "AdamW")), section.get("params", {})
    names = {"adamw": "adamw", "adam": "adamw", "fusedadam": "adamw", "cpuadam": "adamw", "sgd": "sgd"}
    if kind.lower() not in names:
        raise Error(f"optimizer.type: {kind} is not supported; use AdamW or SGD")
    out.set("optimizer.type", "optimizer.name", names[kind.lower()])
    if kind.lower() == "adam" and not params.get("adam_w_mode", True):
        raise Error("optimizer.params.adam_w_mode: false, Adam with L2 regularisation, is not supported; use AdamW")
    keys = {"lr": "learning_rate", "eps": "epsilon", "weight_decay": "weight_decay", "momentum": "momentum"}
    for key, value in params.items():
        if _is_auto(value):
            out.note(f"optimizer.params.{key}", "auto: give it in optimizer of the configuration")
        elif key in keys:
            out.set(f"optimizer.params.{key}", f"optimizer.{keys[key]}", float(value))
        elif key == "betas":
            out.set("optimizer.params.betas", "optimizer.beta1", float(value[0]))
            out.set("optimizer.params.betas", "optimizer.beta2", float(value[1]))
        elif key in _ONLY and value != _ONLY[key]:
            raise Error(f"optimizer.params.{key}: {json.dumps(value)} is not supported; leave it out")
        else:
            out.note(f"optimizer.params.{key}", "left out")
    if out.config["optimizer"].get("weight_decay"):
        out.note("optimizer.params.weight_decay", "is that of parameters of two or more dimensions, unless `decay` of "
                 "zerofleet.train chooses others")
    for key, value in _OPTIMIZER_DEFAULTS[names[kind.lower()]].items():
        if key.partition(".")[0] not in params:
            out.set(f"(no optimizer.params.{key.partition('.')[0]})", f"optimizer.{key.rpartition('.')[2]}", value)


def _scheduler(given, out):
    section = given.get("scheduler")
    if not section:
        out.set("(no scheduler)", "schedule.decay", "constant")
        out.set("(no scheduler)", "schedule.warmup_steps", 0)
        return
    kind, params = section.get("type"), section.get("params", {})
    decays = {"WarmupLR": "constant", "WarmupDecayLR": "linear", "WarmupCosineLR": "cosine"}
    if kind not in decays:
        raise Error(f"scheduler.type: {kind} is not supported; use {', '.join(decays)}")
    out.set("scheduler.type", "schedule.decay", decays[kind])
    if kind == "WarmupDecayLR":
        out.set("scheduler.type", "schedule.min_learning_rate", 0.0)
    targets = {"warmup_num_steps": "schedule.warmup_steps", "total_num_steps": "steps",
               "warmup_max_lr": "optimizer.learning_rate"}
    for key, value in params.items():
        if _is_auto(value):
            out.note(f"scheduler.params.{key}", "auto: give it in the configuration")
        elif key in targets:
            out.set(f"scheduler.params.{key}", targets[key], float(value) if "lr" in key else int(value))
        elif key == "warmup_type" and value == "linear":
            out.note("scheduler.params.warmup_type", "as here")
        elif key != "cos_min_ratio":
            out.note(f"scheduler.params.{key}", "left out: the warm-up is linear and begins at 0")
    if "warmup_max_lr" not in params and kind != "WarmupCosineLR":  # these two do not look at the optimizer's learning rate
        out.set("(no scheduler.params.warmup_max_lr)", "optimizer.learning_rate", 1e-3)
    if "warmup_num_steps" not in params:
        out.set("(no scheduler.params.warmup_num_steps)", "schedule.warmup_steps", 1000)
    if "warmup_type" not in params and kind != "WarmupCosineLR":
        out.note("(no scheduler.params.warmup_type)", "DeepSpeed's warm-up is then logarithmic; here it is linear")
    rate = out.config.get("optimizer", {}).get("learning_rate")
    if kind == "WarmupCosineLR" and rate is None:
        out.note("scheduler.params.cos_min_ratio", "give schedule.min_learning_rate, this part of the learning rate")
    elif kind == "WarmupCosineLR":
        out.set("scheduler.params.cos_min_ratio", "schedule.min_learning_rate",
                float(params.get("cos_min_ratio", 0.0001)) * rate)


def _zero(given, out):
    section = dict(given.get("zero_optimization", {"stage": 0}))
    stage = section.pop("stage", 0)
    out.set("zero_optimization.stage", "parallel.zero_stage", int(stage))
    for name, key in (("offload_optimizer", "offload.optimizer"), ("offload_param", "offload.parameters")):
        offload = section.pop(name, None)
        device = (offload or {}).get("device", "none")
        if device == "none":
            continue
        if name == "offload_param" and device == "nvme":
            out.note(f"zero_optimization.{name}.device", "parameters rest in host memory, not in a file")
            device = "cpu"
        out.set(f"zero_optimization.{name}.device", key, device)
        if device == "nvme" and offload.get("nvme_path"):
            out.set(f"zero_optimization.{name}.nvme_path", "offload.dir", offload["nvme_path"])
        if name == "offload_optimizer" and "ratio" in offload:
            out.set(f"zero_optimization.{name}.ratio", "offload.fraction", float(offload["ratio"]))
        for key_of in offload:
            if key_of not in ("device", "nvme_path", "ratio"):
                out.note(f"zero_optimization.{name}.{key_of}", "left out: buffers follow from the plan")
    if section.pop("cpu_offload", False):
        out.set("zero_optimization.cpu_offload", "offload.optimizer", "cpu")
    for key in section:
        out.note(f"zero_optimization.{key}", _ZERO_WITHOUT_EFFECT.get(key, "left out: there is no such thing here"))


def translate(given, workers=1):
    """(configuration, [(DeepSpeed's key, what became of it)]). Raises Error for settings that would train something else."""
    if not isinstance(given, dict):
        raise Error("a DeepSpeed configuration is a JSON object")
    out = _Translation()
    _batch(given, workers, out)
    _precision(given, out)
    _optimizer(given, out)
    _scheduler(given, out)
    _zero(given, out)
    clipping = given.get("gradient_clipping", 0)
    if not _is_auto(clipping):
        out.set("gradient_clipping", "optimizer.grad_clip", float(clipping))
    done = {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "bf16", "bfloat16", "fp16", "optimizer",
            "scheduler", "zero_optimization", "gradient_clipping", "train_batch_size"}
    sizes = {"train_micro_batch_size_per_gpu": "micro_sequences", "train_batch_size": "global_sequences"}
    for key, value in given.items():
        if key in done:
            if _is_auto(value) and sizes.get(key) in out.config.get("batch", {}):
                out.note(key, "auto: follows from the other sizes")
            elif _is_auto(value):
                out.note(key, "auto: give it in the configuration")
        elif key == "activation_checkpointing":
            out.note(key, "left out: the module does it (torch.utils.checkpoint)")
        else:
            out.note(key, _WITHOUT_EFFECT.get(key) or "left out: there is no such thing here")
    if workers > 1:
        out.config.setdefault("parallel", {})["workers"] = workers
    return out.config, out.fates


def _yaml(config, indent=0):
    lines = []
    for key, value in config.items():
        if isinstance(value, dict):
            lines.append(f"{' ' * indent}{key}:")
            lines += _yaml(value, indent + 2)
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(value)}")
    return lines


def to_yaml(path, workers=1):
    """The translation of a file, as YAML with comments at its head that say what became of each key."""
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Error(f"{path}: not valid JSON: {error}") from None
    try:
        config, fates = translate(given, workers)
    except Error as error:
        raise Error(f"{path}: {error}") from None
    head = [f"# From {path}:"] + [f"#   {key} -> {text}" for key, text in fates]
    return "\n".join(head + _yaml(config)) + "\n"
