#!/usr/bin/env python3
"""Gives `zerofleet doctor` steps of PyTorch's AdamW on small models of transformers: 20 that are right, of which it must say nothing,
and 20 with a fault of the trainer, of which it must name the first tensor.

Usage: check_doctor.py --zerofleet BINARY --work FOLDER; needs torch and transformers. Exits 1 if any answer is another."""
import argparse
import pathlib
import subprocess
import sys

import safetensors.torch
import torch
import transformers

CLIP, DECAY, BETAS, EPSILON, RATE = 0.5, 0.1, (0.9, 0.95), 1e-8, 1e-3
GPT2, LLAMA = "gpt2", "llama"


def make(family, seed, vocab=97, context=16):
    torch.manual_seed(seed)
    if family == LLAMA:
        config = transformers.LlamaConfig(
            vocab_size=vocab, hidden_size=24, intermediate_size=50, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=context, tie_word_embeddings=seed % 2 == 0, initializer_range=0.2)
        return transformers.LlamaForCausalLM(config).train()
    config = transformers.GPT2Config(
        vocab_size=vocab, n_positions=context, n_embd=24, n_layer=2, n_head=3, initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config).train()


def decays(name, parameter):
    return parameter.dim() >= 2 and not name.endswith("wpe.weight")


class Trainer:
    """What a trainer does in a step, with places where a fault can be planted."""
    def __init__(self, family, seed, sequences=3, tokens=12, steps_before=0, fault=None):
        self.model, self.fault, self.steps = make(family, seed), fault or {}, steps_before
        named = dict(self.model.named_parameters())
        groups = [{"params": [p for n, p in named.items() if decays(n, p) == wanted], "weight_decay": DECAY if wanted else 0.0}
                  for wanted in (True, False)]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON, foreach=False)
        self.names = {p: n for n, p in named.items()}
        for i in range(steps_before):
            self.step(torch.randint(0, 97, (sequences, tokens)), None, {})
        self.ids = torch.randint(0, 97, (sequences, tokens))
        self.labels = self.ids.clone()
        self.labels[0, 2:4] = -100

    def states(self, kind):
        return {self.names[p]: state[kind].clone() for p, state in self.optimizer.state.items()}

    def step(self, ids, labels, fault):
        """Loss and norm as this trainer reports them; gradients are left as they are before clipping."""
        self.optimizer.zero_grad()
        labels = ids if labels is None else labels
        counted = (labels[:, 1:] != -100).sum()
        loss = 0.0
        for i in range(len(ids)):  # a sequence at a time, as gradients are accumulated
            shifted = torch.roll(labels[i:i + 1], 1, dims=1) if "targets shifted" in fault else labels[i:i + 1]
            logits = self.model(ids[i:i + 1]).logits[:, :-1].float()
            part = torch.nn.functional.cross_entropy(logits.flatten(0, 1), shifted[:, 1:].flatten(), reduction="sum", ignore_index=-100)
            if "mean of means" in fault:
                part = part / (labels[i, 1:] != -100).sum() / len(ids)
            elif "not divided" not in fault:
                part = part / counted
            if "last micro-batch dropped" in fault and i == len(ids) - 1:
                break
            part.backward()
            loss += part.item()
        named = {n: p for p, n in self.names.items()}
        for name, factor in fault.get("scaled", {}).items():
            named[name].grad.mul_(factor)
        self.gradients = {n: p.grad.clone() for n, p in named.items()}
        norm = torch.sqrt(sum((g.double() ** 2).sum() for g in self.gradients.values())).item()
        if "norm twice" in fault:
            norm *= 2 ** 0.5
        clip = 1.0 if "no clipping" in fault else min(1.0, CLIP / (norm + 1e-6))
        for p in self.names:
            p.grad.mul_(clip)
        before = {n: p.detach().clone() for n, p in named.items()}
        kept = {p: {k: v.clone() for k, v in s.items()} for p, s in self.optimizer.state.items()}
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * fault.get("rate", 1.0)
            group["betas"] = fault.get("betas", BETAS)
            group["eps"] = fault.get("eps", EPSILON)
            if "decays all" in fault:
                group["weight_decay"] = DECAY
        self.optimizer.step()
        for kind, name in fault.get("stale", []):
            self.optimizer.state[named[name]][kind].copy_(kept[named[name]][kind])
        for name in fault.get("not updated", []):
            named[name].data.copy_(before[name])
        if "bf16 weights" in fault:
            for p in self.names:
                p.data.copy_(p.data.bfloat16().float())
        return loss, norm

    def examine(self, binary, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder / "hf")
        save = lambda tensors, name: safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, folder / name)
        save({"input_ids": self.ids, "labels": self.labels}, "batch.safetensors")
        command = [binary, "doctor", "--checkpoint", folder / "hf", "--batch", folder / "batch.safetensors", "--expect",
                   folder / "step.safetensors", "--set", f"optimizer.learning_rate={RATE}", "--set", f"optimizer.grad_clip={CLIP}", "--set",
                   f"optimizer.weight_decay={DECAY}", "--set", f"optimizer.epsilon={EPSILON}"]
        if self.steps:
            state = {f"{kind}.{n}": v for kind in ("exp_avg", "exp_avg_sq") for n, v in self.states(kind).items()}
            save({**state, "step": torch.tensor(float(self.steps))}, "state.safetensors")
            command += ["--state", folder / "state.safetensors"]
        loss, norm = self.step(self.ids, self.labels, self.fault)
        found = {"loss": torch.tensor(loss), "grad_norm": torch.tensor(norm)}
        found |= {f"gradient.{n}": v for n, v in self.gradients.items()}
        found |= {f"{kind}.{n}": v for kind in ("exp_avg", "exp_avg_sq") for n, v in self.states(kind).items()}
        found |= {f"updated.{n}": p.detach() for p, n in self.names.items()}
        save(found, "step.safetensors")
        run = subprocess.run([str(x) for x in command], capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr.strip()


HEAD, MLP, NORM = "transformer.ln_f.bias", "transformer.h.0.mlp.c_fc.weight", "transformer.h.1.ln_2.weight"
PLANTED = [
    (GPT2, 0, {"not divided"}, "loss is "),
    (LLAMA, 0, {"not divided"}, "loss is "),
    (GPT2, 0, {"targets shifted"}, "loss is "),
    (LLAMA, 2, {"mean of means"}, "loss is "),
    (GPT2, 0, {"last micro-batch dropped"}, "loss is "),
    (GPT2, 0, {"scaled": {MLP: 0.5}}, f"gradient of {MLP} is 0.5 times ours"),
    (GPT2, 2, {"scaled": {NORM: 2.0, "transformer.wpe.weight": 2.0}}, f"gradient of {NORM} is 2 times ours"),
    (LLAMA, 0, {"scaled": {"model.layers.1.self_attn.k_proj.weight": 0.0}}, "gradient of model.layers.1.self_attn.k_proj.weight is zero"),
    (LLAMA, 2, {"scaled": {"model.embed_tokens.weight": -1.0}}, "gradient of model.embed_tokens.weight is -1 times ours"),
    (GPT2, 0, {"norm twice"}, "grad_norm is "),
    (LLAMA, 2, {"norm twice"}, "grad_norm is "),
    (GPT2, 0, {"no clipping"}, "exp_avg of transformer.wte.weight"),
    (GPT2, 3, {"stale": [("exp_avg", MLP)]}, f"exp_avg of {MLP} "),
    (LLAMA, 3, {"stale": [("exp_avg_sq", "model.norm.weight")]}, "exp_avg_sq of model.norm.weight "),
    (GPT2, 2, {"betas": (0.9, 0.999)}, "exp_avg_sq of transformer.wte.weight"),
    (GPT2, 2, {"rate": 0.5}, "updated of transformer.wte.weight: its change is 0.5"),
    (LLAMA, 2, {"eps": 1e-3}, "updated of model.embed_tokens.weight: its change "),
    (GPT2, 2, {"decays all"}, "updated of transformer.wpe.weight: its change "),
    (LLAMA, 2, {"not updated": ["model.layers.0.mlp.up_proj.weight"]},
     "updated of model.layers.0.mlp.up_proj.weight: its change is zero"),
    (GPT2, 2, {"bf16 weights"}, "updated of transformer.wte.weight: its change "),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--zerofleet", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    wrong = 0
    for i in range(20):
        family = (GPT2, LLAMA)[i % 2]
        trainer = Trainer(family, seed=i, sequences=1 + i % 4, tokens=(5, 12, 16)[i % 3], steps_before=(0, 1, 4)[i % 3])
        code, out, error = trainer.examine(args.zerofleet, args.work / f"clean-{i}")
        wrong += code != 0
        print(f"clean {i}, {family}: {'nothing' if code == 0 else error}")
    for i, (family, before, fault, expected) in enumerate(PLANTED):
        fault = fault if isinstance(fault, dict) else dict.fromkeys(fault, True)
        code, out, error = Trainer(family, seed=100 + i, steps_before=before, fault=fault).examine(args.zerofleet, args.work / f"planted-{i}")
        found = code == 3 and expected in error
        wrong += not found
        print(f"planted {i}, {family}, {fault}: {'named' if found else 'NOT NAMED: ' + (error or out)}")
    print(f"{40 - wrong} of 40 as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
