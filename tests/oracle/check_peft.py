#!/usr/bin/env python3
"""Compares low-rank adapters, and the loss's and the optimizer's other settings, with PyTorch, transformers and PEFT on the same
random weights: five steps' losses and gradient norms, the adapters behind them, and the merged model.

Usage: check_peft.py --zerofleet BINARY --work FOLDER [--case NAME]... [--set KEY=VALUE]...; needs torch, transformers and peft. Every
step takes all samples, so that their order does not matter. Prints the largest differences of each case; exits 1 if one is too large."""
import argparse
import json
import pathlib
import subprocess
import sys

import peft
import safetensors.torch
import torch
import transformers
from torch.optim import swa_utils

from differences import judge

STEPS, LEARNING_RATE, CLIP, DECAY = 5, 1e-2, 0.5, 0.1
BETAS, EPSILON = (0.9, 0.95), 1e-3
VOCAB, CONTEXT, LAYERS, SAMPLES = 257, 24, 2, 12
TOLERANCE = 1e-5  # relative
# The family, the adapters' targets (none: the whole model is trained), and settings of the run.
CASES = {
    "llama-lora": ("llama", ["q_proj", "v_proj"], {}),
    "llama-lora-all": ("llama", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], {}),
    "gpt2-lora": ("gpt2", ["c_attn", "mlp.c_fc", "mlp.c_proj"], {}),
    "gpt2-freeze": ("gpt2", None, {"model.freeze": "[wte.weight, wpe.weight, 'h.0.*', '*.ln_2.bias']"}),
    "smoothing": ("llama", None, {"loss.label_smoothing": "0.1"}),
    "z-loss": ("gpt2", None, {"loss.z_loss": "0.01"}),
    "both-terms": ("llama", ["q_proj", "down_proj"], {"loss.label_smoothing": "0.05", "loss.z_loss": "0.001"}),
}
CASES["muon"] = ("llama", None, {"optimizer.name": "muon", "optimizer.momentum": "0.95"})
CASES["muon-gpt2"] = ("gpt2", None, {"optimizer.name": "muon", "optimizer.momentum": "0.9"})
CASES["muon-offload"] = ("llama", None, {**CASES["muon"][2], "offload.optimizer": "cpu", "offload.fraction": "0.5"})
CASES["muon-tensor"] = ("gpt2", None, {**CASES["muon-gpt2"][2], "parallel.tensor": "2"})
for key, of, decay in (("ema", "llama-lora", "0.9"), ("ema-gpt2", "gpt2-freeze", "0.75"), ("ema-muon", "muon", "0.6")):
    CASES[key] = (*CASES[of][:2], {**CASES[of][2], "ema.decay": decay})
RANK, ALPHA = 4, 12


class Muon(torch.optim.Optimizer):
    """The reference: Newton-Schulz of a Nesterov momentum, in fp32, with an update of AdamW's size."""
    def __init__(self, parameters, momentum):
        super().__init__(parameters, {"momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p, transposed in zip(group["params"], group["transposed"]):
                grad = p.grad.T if transposed else p.grad
                state = self.state[p]
                momentum = state.setdefault("momentum", torch.zeros_like(grad))
                momentum.lerp_(grad, 1 - group["momentum"])
                x = grad.lerp(momentum, group["momentum"])
                tall = x.size(0) > x.size(1)
                x = x.T if tall else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if tall else x
                p.mul_(1 - LEARNING_RATE * DECAY)
                p.sub_((x.T if transposed else x) * (LEARNING_RATE * 0.2 * max(x.shape) ** 0.5))


def reference(family):
    torch.manual_seed(1)
    if family == "llama":
        config = transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=LAYERS, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=False,
            initializer_range=48 ** -0.5)
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.GPT2Config(
            vocab_size=VOCAB, n_positions=CONTEXT, n_embd=48, n_layer=LAYERS, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, initializer_range=48 ** -0.5)
        model = transformers.GPT2LMHeadModel(config)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model.float()


def loss_of(model, inputs, targets, settings=None):
    settings = settings or {}
    logits = model(inputs).logits.reshape(-1, VOCAB)
    loss = torch.nn.functional.cross_entropy(logits, targets.reshape(-1), label_smoothing=float(settings.get("loss.label_smoothing", 0)))
    return loss + float(settings.get("loss.z_loss", 0)) * logits.logsumexp(-1).pow(2).mean()


def train(model, inputs, targets, settings):
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    muon = None
    if settings.get("optimizer.name") == "muon":
        matrices = [(name, p) for name, p in trained if p.ndim == 2 and (".h." in name or ".layers." in name)]
        muon = Muon([{"params": [p for _, p in matrices], "transposed": [".h." in name for name, _ in matrices]}],
                    float(settings["optimizer.momentum"]))
        trained_by_adamw = [(name, p) for name, p in trained if all(p is not each for _, each in matrices)]
    else:
        trained_by_adamw = trained
    decay = [p for name, p in trained_by_adamw if p.ndim == 2 and "wpe" not in name]
    rest = [p for name, p in trained_by_adamw if p.ndim != 2 or "wpe" in name]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    averaged = None
    if "ema.decay" in settings:
        averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(float(settings["ema.decay"])))
    for _ in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, inputs, targets, settings)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([p for _, p in trained], CLIP)))
        losses.append(float(loss))
        optimizer.step()
        if muon is not None:
            muon.step()
        if averaged is not None:
            averaged.update_parameters(model)
    return losses, norms, averaged


def run(arguments, *command):
    done = subprocess.run([arguments.zerofleet, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def with_adapters(model, targets):
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0,
                                                         task_type="CAUSAL_LM"))
    torch.manual_seed(3)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:  # of zeros, A would have no gradient
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted


def compare(arguments, name):
    family, targets, settings = CASES[name]
    work = pathlib.Path(arguments.work) / name
    work.mkdir(parents=True)
    model = reference(family)
    model.save_pretrained(work / "hf", safe_serialization=True)
    tokens = torch.randint(0, VOCAB, (SAMPLES * CONTEXT + 1,), generator=torch.Generator().manual_seed(2))
    (work / "data.u16").write_bytes(tokens.numpy().astype("uint16").tobytes())
    inputs, labels = tokens[:-1].reshape(SAMPLES, CONTEXT), tokens[1:].reshape(SAMPLES, CONTEXT)
    base = start = work / "imported/step-00000000"
    run(arguments, "checkpoint", "import", work / "hf", base)
    differences = {}
    if targets is not None:
        model = with_adapters(model, targets)
        model.save_pretrained(work / "peft")
        start = work / "adapters/step-00000000"
        run(arguments, "checkpoint", "import", work / "peft", start, "--base", base)
        measured = json.loads(run(arguments, "eval", "--checkpoint", start, "--data", work / "data.u16", "--json"))
        with torch.no_grad():
            differences["eval"] = abs(measured["loss"] / float(loss_of(model, inputs, labels)) - 1)
    elif "model.freeze" in settings:
        for key, parameter in model.named_parameters():
            key = key.removeprefix("transformer.")
            parameter.requires_grad = not (key in ("wte.weight", "wpe.weight") or key.startswith("h.0.") or key.endswith("ln_2.bias"))
    config = {
        "init_from": str(start), "data": {"train": [str(work / "data.u16")], "format": "tokens_u16"},
        "parallel": {"zero_stage": 3, "workers": 2}, "precision": "fp32",
        "batch": {"global_sequences": SAMPLES, "micro_sequences": 3},
        "optimizer": {"learning_rate": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON,
                      "weight_decay": DECAY, "grad_clip": CLIP},
        "schedule": {"warmup_steps": 0, "decay": "constant"}, "steps": STEPS, "device": "cpu",
        "checkpoint": {"dir": str(work / "run"), "every_steps": 0}, "restart": {"heartbeat_timeout_seconds": 20}}
    (work / "run.yaml").write_text(json.dumps(config))
    more = [f"{key}={value}" for key, value in settings.items()] + arguments.set
    run(arguments, "train", work / "run.yaml", "--report", work / "report.jsonl",
        *(each for setting in more for each in ("--set", setting)))
    events = [json.loads(line) for line in (work / "report.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    losses, norms, averaged = train(model, inputs, labels, settings)
    for key, wanted in (("loss", losses), ("grad_norm", norms)):
        differences[key] = max(abs(step[key] / value - 1) for step, value in zip(steps, wanted, strict=True))
    moved = STEPS * LEARNING_RATE
    if targets is not None:
        run(arguments, "checkpoint", "export", work / "run", work / "peft-out", "--adapters")
        exported = safetensors.torch.load_file(work / "peft-out/adapter_model.safetensors")
        wanted = {key: value for key, value in peft.get_peft_model_state_dict(model).items()}
        assert set(exported) == set(wanted), set(exported) ^ set(wanted)
        differences["weights"] = max(float((exported[key] - wanted[key]).abs().max()) / moved for key in exported)
        again = peft.PeftModel.from_pretrained(reference(family), work / "peft-out")
        with torch.no_grad():
            differences["peft"] = abs(float(loss_of(again, inputs, labels)) / float(loss_of(model, inputs, labels)) - 1)
    if averaged is not None:
        adapters = ["--adapters"] if targets is not None else []
        run(arguments, "checkpoint", "export", work / "run", work / "average", "--ema", *adapters)
        path = work / "average" / ("adapter_model.safetensors" if adapters else "model.safetensors")
        exported = safetensors.torch.load_file(path)
        wanted = peft.get_peft_model_state_dict(averaged.module) if adapters else averaged.module.state_dict()
        now = peft.get_peft_model_state_dict(model) if adapters else model.state_dict()
        differences["ema"] = max(float((exported[key] - wanted[key]).abs().max()) / moved for key in exported)
        assert max(float((now[key] - wanted[key]).abs().max()) for key in exported) > 0.1 * moved, "the average is the weights"
    run(arguments, "checkpoint", "export", work / "run", work / "out")
    merged = type(reference(family)).from_pretrained(work / "out")
    with torch.no_grad():
        differences["merged"] = abs(float(loss_of(merged, inputs, labels)) / float(loss_of(model, inputs, labels)) - 1)
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zerofleet", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--case", action="append", choices=list(CASES), default=[])
    arguments = parser.parse_args()
    judge(arguments.case or CASES, lambda name: compare(arguments, name), TOLERANCE)


if __name__ == "__main__":
    main()
