#!/usr/bin/env python3
"""Compares a Llama that Zerofleet trains with Hugging Face transformers on the same random weights: the loss, and five AdamW
steps' losses, gradient norms and weights.

Usage: check_llama.py --zerofleet BINARY --work FOLDER [--model NAME]... [--precision fp32|bf16|fp16] [--set KEY=VALUE]...; needs torch and transformers
(scripts/oracle_venv.sh). Every step takes all samples, so that their order does not matter. Prints the largest differences of each
model; exits 1 if one is too large."""
import argparse
import json
import pathlib
import subprocess
import sys

import safetensors.torch
import torch
import transformers

from differences import judge

STEPS, LEARNING_RATE, CLIP, DECAY = 5, 1e-2, 0.5, 0.1
# An epsilon that large keeps AdamW from dividing a gradient that is almost nothing by itself, which would make roundings steps.
BETAS, EPSILON = (0.9, 0.95), 1e-3
# The hidden width, heads, heads of keys and values, the MLP's width, tied heads, norms of queries and keys, rope_scaling.
MODELS = {
    "grouped": (48, 6, 2, 100, False, False, None),
    "tied": (72, 9, 3, 33, True, False, None),
    "wide-heads": (240, 6, 6, 50, False, False, None),
    "one-kv-head": (32, 4, 1, 64, False, False, {"type": "linear", "factor": 4.0}),
    "head-norms": (48, 4, 2, 64, True, True, None),
}
VOCAB, CONTEXT, LAYERS, SAMPLES = 257, 24, 2, 12
# Relative.
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 5e-3}


class NormOfHeads(torch.nn.Module):
    """Qwen 3's norm of each head, behind the product that makes them: this version of transformers has no Qwen 3."""
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        heads = x.unflatten(-1, (-1, self.weight.numel()))
        return (heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight).flatten(-2)


def norm_heads(model):
    for layer in model.model.layers:
        attention = layer.self_attn
        for name in ("q_proj", "k_proj"):
            setattr(attention, name, torch.nn.Sequential(getattr(attention, name), NormOfHeads(attention.head_dim)))


def stored_name(key):
    """A parameter's name in files: norms of heads have names of their own there."""
    for letter in "qk":
        key = key.replace(f"{letter}_proj.0.", f"{letter}_proj.").replace(f"{letter}_proj.1.", f"{letter}_norm.")
    return key


def save(model, name, folder):
    model.save_pretrained(folder, safe_serialization=True)
    if not MODELS[name][5]:
        return
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file({stored_name(key): value for key, value in weights.items()}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}))


def load(name, folder):
    if not MODELS[name][5]:
        return transformers.LlamaForCausalLM.from_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    model = reference(name)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    model.load_state_dict({key: weights[stored_name(key)] for key in model.state_dict()})
    return model


def reference(name):
    hidden, heads, kv_heads, inner, tied, head_norms, scaling = MODELS[name]
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=LAYERS, num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=tied,
        rope_scaling=scaling, initializer_range=hidden ** -0.5)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config)
    if head_norms:
        norm_heads(model)
    for parameter in model.parameters():  # norms' weights that are all 1 would hide their gradients' faults
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model.float()


def loss_of(model, inputs, targets):
    logits = model(inputs).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def train(model, inputs, targets):
    decay = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, inputs, targets)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        losses.append(float(loss))
        optimizer.step()
    return losses, norms


def run(arguments, *command):
    done = subprocess.run([arguments.zerofleet, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def compare(arguments, name):
    work = pathlib.Path(arguments.work) / name
    work.mkdir(parents=True)
    model = reference(name)
    save(model, name, work / "hf")
    tokens = torch.randint(0, VOCAB, (SAMPLES * CONTEXT + 1,), generator=torch.Generator().manual_seed(2))
    (work / "data.u16").write_bytes(tokens.numpy().astype("uint16").tobytes())
    inputs = tokens[:-1].reshape(SAMPLES, CONTEXT)
    targets = tokens[1:].reshape(SAMPLES, CONTEXT)
    run(arguments, "checkpoint", "import", work / "hf", work / "imported/step-00000000")
    measured = json.loads(run(arguments, "eval", "--checkpoint", work / "imported/step-00000000", "--data", work / "data.u16", "--json"))
    with torch.no_grad():
        differences = {"eval": abs(measured["loss"] / float(loss_of(model, inputs, targets)) - 1)}
    config = {
        "init_from": str(work / "imported/step-00000000"), "data": {"train": [str(work / "data.u16")], "format": "tokens_u16"},
        "parallel": {"zero_stage": 3, "workers": 2}, "precision": arguments.precision,
        "batch": {"global_sequences": SAMPLES, "micro_sequences": 3},
        "optimizer": {"learning_rate": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON,
                      "weight_decay": DECAY, "grad_clip": CLIP},
        "schedule": {"warmup_steps": 0, "decay": "constant"}, "steps": STEPS, "device": "cpu",
        "checkpoint": {"dir": str(work / "run"), "every_steps": 0}, "restart": {"heartbeat_timeout_seconds": 20}}
    (work / "run.yaml").write_text(json.dumps(config))
    run(arguments, "train", work / "run.yaml", "--report", work / "report.jsonl",
        *(each for setting in arguments.set for each in ("--set", setting)))
    events = [json.loads(line) for line in (work / "report.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    losses, norms = train(model, inputs, targets)
    for key, wanted in (("loss", losses), ("grad_norm", norms)):
        differences[key] = max(abs(step[key] / value - 1) for step, value in zip(steps, wanted, strict=True))
    run(arguments, "checkpoint", "export", work / "run", work / "out")
    exported = safetensors.torch.load_file(work / "out/model.safetensors")
    reloaded = load(name, work / "out")
    moved = STEPS * LEARNING_RATE
    state = {stored_name(key): value for key, value in model.state_dict().items()}
    differences["weights"] = max(float((exported[key] - state[key]).abs().max()) / moved for key in exported)
    with torch.no_grad():
        differences["reloaded"] = abs(float(loss_of(reloaded, inputs, targets)) / float(loss_of(model, inputs, targets)) - 1)
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zerofleet", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--precision", choices=list(TOLERANCE), default="fp32")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--model", action="append", choices=list(MODELS), default=[])
    arguments = parser.parse_args()
    judge(arguments.model or MODELS, lambda name: compare(arguments, name), TOLERANCE[arguments.precision])


if __name__ == "__main__":
    main()
