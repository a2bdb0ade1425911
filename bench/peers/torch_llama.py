#!/usr/bin/env python3
"""The training step of a Llama: Zerofleet against PyTorch's DDP and FSDP2 on the CPU, with the same shape, in turns.

  bench/peers/torch_llama.py --zerofleet build/zerofleet [--preset smollm2-135m] [--workers 2] [--context 256] [--sequences 8]

All train in bf16 (autocast under DDP; FSDP2's mixed precision; fp32 weights and moments in both), with fused AdamW and gradients
clipped at 1. Weights and tokens are random, since every step costs the same. Prints the tokens per second of all workers together, the median
over rounds, and the ratio of ours to the peer's.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SHAPES = {"smollm2-135m": {"layers": 30, "hidden": 576, "heads": 9, "kv_heads": 3, "inner": 1536, "vocab": 49152, "theta": 1e5},
          "smollm2-360m": {"layers": 32, "hidden": 960, "heads": 15, "kv_heads": 5, "inner": 2560, "vocab": 49152, "theta": 1e5}}


def build(shape, context):
    """The model as transformers computes it: RMS norms in fp32, half-split rotary positions, SwiGLU, a tied head."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    size = shape["hidden"] // shape["heads"]
    frequencies = shape["theta"] ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.cat([torch.outer(torch.arange(context).float(), frequencies)] * 2, dim=1)
    cosines, sines = angles.cos(), angles.sin()

    def rotate(x):
        first, second = x.chunk(2, dim=-1)
        return (x * cosines + torch.cat((-second, first), dim=-1) * sines).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            hidden, kv = shape["hidden"], shape["kv_heads"] * size
            self.first, self.second = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
            self.q, self.o = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
            self.k, self.v = nn.Linear(hidden, kv, bias=False), nn.Linear(hidden, kv, bias=False)
            self.gate, self.up = (nn.Linear(hidden, shape["inner"], bias=False) for _ in range(2))
            self.down = nn.Linear(shape["inner"], hidden, bias=False)

        def forward(self, x):
            heads = lambda y, count: y.view(*x.shape[:2], count, size).transpose(1, 2)
            normed = self.first(x)
            q, k, v = heads(self.q(normed), shape["heads"]), heads(self.k(normed), shape["kv_heads"]), heads(self.v(normed), shape["kv_heads"])
            attended = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
            x = x + self.o(attended.transpose(1, 2).reshape(x.shape))
            normed = self.second(x)
            return x + self.down(F.silu(self.gate(normed)) * self.up(normed))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(shape["vocab"], shape["hidden"])
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = nn.RMSNorm(shape["hidden"], eps=1e-5)
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(module.weight, std=0.02)

        def forward(self, ids, targets):
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    return Llama()


def rank_of(rank, flags):
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // flags.workers))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29512")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=flags.workers)
    model = build(SHAPES[flags.preset], flags.context)
    if flags.peer == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        how = {"mesh": init_device_mesh("cpu", (flags.workers,)), "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
        for block in model.blocks:
            fully_shard(block, **how)
        fully_shard(model, **how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    sequences = flags.sequences // flags.workers
    ids = torch.randint(0, SHAPES[flags.preset]["vocab"], (sequences, flags.context + 1))
    seconds = []
    for _ in range(1 + flags.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=flags.peer == "ddp"):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        rate = flags.sequences * flags.context / statistics.median(seconds[1:])
        print(json.dumps({"rate": rate, "name": f"PyTorch {torch.__version__} {'DDP' if flags.peer == 'ddp' else 'FSDP2'}"}), flush=True)


def ours(flags, stage):
    words = [flags.zerofleet, "bench", "step", "--json", "--device", "cpu", "--preset", flags.preset, "--workers", str(flags.workers), "--stage", str(stage),
             "--context", str(flags.context), "--sequences", str(flags.sequences), "--steps", str(flags.steps)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["results"][0]["tokens_per_second"]


def peer(flags, kind):
    words = [sys.executable, __file__, "--peer", kind, "--preset", flags.preset]
    for name in ("workers", "context", "sequences", "steps"):
        words += [f"--{name}", str(getattr(flags, name))]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zerofleet", default="build/zerofleet")
    parser.add_argument("--preset", choices=SHAPES, default="smollm2-135m")
    for name, value in (("workers", 2), ("context", 256), ("sequences", 8), ("steps", 3), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peer", choices=("ddp", "fsdp"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.peer:
        import torch
        torch.multiprocessing.start_processes(rank_of, args=(flags,), nprocs=flags.workers, start_method="spawn")
        return
    pairs = {"ddp": 0, "fsdp": 3}  # the peer, and the ZeRO stage that splits the same states
    rates = {kind: {"ours": [], "theirs": []} for kind in pairs}
    names = {}
    for _ in range(flags.rounds):
        for kind, stage in pairs.items():
            rates[kind]["ours"].append(ours(flags, stage))
            answer = peer(flags, kind)
            rates[kind]["theirs"].append(answer["rate"])
            names[kind] = answer["name"]
    print(f"{flags.preset}, bf16, {flags.workers} workers, {flags.sequences} x {flags.context} tokens a step\n")
    print("| stage | tokens/s | peer | tokens/s | times | range |\n|---|---|---|---|---|---|")
    for kind, stage in pairs.items():
        times = [mine / theirs for mine, theirs in zip(rates[kind]["ours"], rates[kind]["theirs"])]
        print(f"| {stage} | {statistics.median(rates[kind]['ours']):.0f} | {names[kind]} | {statistics.median(rates[kind]['theirs']):.0f} | "
              f"{statistics.median(times):.2f} | {min(times):.2f} to {max(times):.2f} |")


if __name__ == "__main__":
    main()
