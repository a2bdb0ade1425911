#!/usr/bin/env python3
"""A plain GPT-2 training step in PyTorch, the peer that `zerofleet bench step` is compared with; prints one JSON line.

    torch_gpt2.py --model gpt2-1558m --batch 16 [--compile blocks]      the time of a step
    torch_gpt2.py --losses 20 --shape JSON --tokens FILE --save DIR   losses, and the initial weights

The model, arithmetic and optimizer are Zerofleet's: pre-norm, learned positions, tanh GELU, tied head, no dropout,
AdamW with decay on matrices and the token embedding, gradients clipped to 1. Timed steps use what PyTorch offers for
speed: bf16 autocast, flash attention, fused AdamW, and with --compile torch.compile of each block or of the whole
model. A batch that does not fit is halved until one does.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "gpt2-124m": dict(layers=12, hidden=768, heads=12),
    "gpt2-355m": dict(layers=24, hidden=1024, heads=16),
    "gpt2-774m": dict(layers=36, hidden=1280, heads=20),
    "gpt2-1558m": dict(layers=48, hidden=1600, heads=25),
}
EPSILON, DEVIATION = 1e-5, 0.02


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden, EPSILON), nn.LayerNorm(hidden, EPSILON)
        self.c_attn, self.attn_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.c_fc, self.mlp_proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(c, dim=2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(out.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, hidden, heads, context, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.h = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden, EPSILON)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                residual = name.endswith(("attn_proj.weight", "mlp_proj.weight"))
                nn.init.normal_(weight, std=DEVIATION / (2 * layers) ** 0.5 if residual else DEVIATION)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


def adamw(model, learning_rate, fused):
    decayed = [p for n, p in model.named_parameters() if p.dim() == 2 and not n.startswith("wpe")]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or n.startswith("wpe")]
    return torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
                             lr=learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=fused)


def train_step(model, optimizer, tokens, targets, autocast):
    with autocast():
        loss = model(tokens, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


# --- time

class Marks:
    """Marks in the device's work, and the seconds between consecutive ones."""

    def __init__(self, device):
        self.on_gpu, self.marks = device == "cuda", []

    def add(self):
        if self.on_gpu:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        if self.on_gpu:
            torch.cuda.synchronize()
        between = zip(self.marks, self.marks[1:])
        return [a.elapsed_time(b) / 1e3 if self.on_gpu else b - a for a, b in between]


def timed_steps(arguments, batch):
    """The seconds of each counted step, by the device's own clock, and the last loss."""
    shape = json.loads(arguments.shape) if arguments.shape else SHAPES[arguments.model]
    shape = dict(shape, context=arguments.context, vocab=arguments.vocab)
    torch.manual_seed(1)
    with torch.device(arguments.device):
        model = Gpt2(**shape)
    optimizer = adamw(model, 3e-4, fused=arguments.device == "cuda")
    step_model = compiled(model, arguments.compile)
    tokens = torch.randint(arguments.vocab, (batch, arguments.context + 1), device=arguments.device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def autocast():
        return torch.autocast(arguments.device, dtype=torch.bfloat16)

    marks = Marks(arguments.device)
    marks.add()
    for _ in range(arguments.warm_up + arguments.steps):
        loss = train_step(step_model, optimizer, inputs, targets, autocast)
        marks.add()
    return marks.seconds()[arguments.warm_up:], loss.item()


def only_flash_attention(device):
    """A context that allows no kernel but flash attention: a silent fallback to another would make this a different peer."""
    if device != "cuda":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def measure(arguments):
    batch, begin = arguments.batch, time.monotonic()
    while True:
        try:
            if arguments.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            with only_flash_attention(arguments.device):
                seconds, loss = timed_steps(arguments, batch)
            break
        except torch.cuda.OutOfMemoryError:
            failed = batch
        # Outside the handler, which would keep the failed attempt's tensors alive.
        batch = failed // 2
        if batch == 0:
            sys.exit(f"{arguments.model} does not fit with one sequence")
        torch.compiler.reset()
        torch.cuda.empty_cache()
        print(f"a batch of {failed} does not fit; trying {batch}", file=sys.stderr, flush=True)
    median = statistics.median(seconds)
    return {"peer": "torch " + torch.__version__, "model": arguments.model, "compiled": arguments.compile, "batch": batch,
            "context": arguments.context, "vocab": arguments.vocab, "median_seconds": median,
            "tokens_per_second": batch * arguments.context / median, "loss": loss,
            "peak_memory_bytes": torch.cuda.max_memory_reserved() if arguments.device == "cuda" else 0,
            "whole_seconds": time.monotonic() - begin}


def compiled(model, what):
    if what == "whole":
        return torch.compile(model)
    if what == "blocks":
        for block in model.h:
            block.compile()
    return model


def batch_of(steps, name):
    """The batch that a step took; figures at different batches cannot be compared."""
    found = [result for result in map(json.loads, pathlib.Path(steps).read_text().splitlines()) if result.get("step") == name]
    batch = (found[-1].get("figures") or {}).get("batch") if found else None
    if not batch:
        sys.exit(f"{steps} has no batch of {name}: run that first")
    return batch


# --- losses

def hugging_face_tensors(model):
    """The weights with the names and the layout of GPT2LMHeadModel, whose projections are stored (in, out)."""
    names = {"c_attn": "attn.c_attn", "attn_proj": "attn.c_proj", "c_fc": "mlp.c_fc", "mlp_proj": "mlp.c_proj"}
    for name, weight in model.named_parameters():
        parts = name.split(".")
        projection = parts[0] == "h" and parts[2] in names
        if projection:
            parts[2] = names[parts[2]]
        value = weight.detach().float().cpu()
        yield "transformer." + ".".join(parts), value.t() if projection and value.dim() == 2 else value


def save(model, shape, directory):
    """Writes a Hugging Face directory: model.safetensors and config.json."""
    header, blobs, offset = {}, [], 0
    for name, tensor in hugging_face_tensors(model):
        blob = struct.pack(f"<{tensor.numel()}f", *tensor.contiguous().view(-1).tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    directory.mkdir(parents=True)
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    (directory / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "vocab_size": shape["vocab"], "n_positions": shape["context"], "n_embd": shape["hidden"],
        "n_layer": shape["layers"], "n_head": shape["heads"], "activation_function": "gelu_new"}))


def losses(arguments):
    """Trains in fp32 on one batch: the tokens of a file, cut into sequences that share their border tokens."""
    shape = json.loads(arguments.shape)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False  # some images enable it through the environment
    model = Gpt2(**shape).to(arguments.device)
    save(model, shape, pathlib.Path(arguments.save))
    optimizer = adamw(model, arguments.learning_rate, fused=False)
    data = pathlib.Path(arguments.tokens).read_bytes()
    tokens = torch.tensor(struct.unpack(f"<{len(data) // 2}H", data), device=arguments.device)
    size = (arguments.batch, shape["context"])
    count = size[0] * size[1]
    inputs, targets = tokens[:count].view(size), tokens[1:count + 1].view(size)
    got = [train_step(model, optimizer, inputs, targets, contextlib.nullcontext).item() for _ in range(arguments.losses)]
    return {"peer": "torch " + torch.__version__, "losses": got}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", choices=SHAPES, default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batch-of", nargs=2, metavar=("STEPS", "STEP"),
                        help="a file of steps' results, and the one whose `batch` to take instead")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--compile", choices=("no", "blocks", "whole"), default="no",
                        help="what torch.compile is given: blocks, each by itself, are compiled in a fraction of the time")
    parser.add_argument("--losses", type=int, default=0, help="print N losses instead of times")
    parser.add_argument("--shape", help="layers, hidden and heads as JSON, in place of --model's; with --losses also "
                                        "context and vocab")
    parser.add_argument("--tokens", help="with --losses: a file of 16-bit tokens")
    parser.add_argument("--save", help="with --losses: where the initial weights go")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    arguments = parser.parse_args()
    if arguments.batch_of:
        arguments.batch = batch_of(*arguments.batch_of)
    print(json.dumps(losses(arguments) if arguments.losses else measure(arguments)), flush=True)


if __name__ == "__main__":
    main()
