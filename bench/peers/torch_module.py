#!/usr/bin/env python3
"""One fine-tuning of a transformers Llama by Zerofleet (as a PyTorch module, and as a built-in family), DDP and FSDP2.

    torch_module.py --workers 2 --steps 5 [--model FOLDER --text book.txt]

Needs the package zerofleet, PyTorch and transformers. All of them see the same weights, samples and schedule, in fp32 on the
CPU. Prints for each: the last loss, the difference of the losses from the first row's at the first step and at most, tokens per
second (by the median step without the first, all workers together) and the largest peak memory of a worker's process. --model is
a folder of transformers with a Llama and its tokenizer, such as a real SmolLM2-135M (examples/finetune); without it the shape is
that model's, the weights are random, and the tokens of the text are its bytes. FSDP2 begins on meta and loads its shards, as it is
meant to.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch

SEED = 7


class Samples:
    """The sequences of a file of u16 tokens, cut as for the built-in families."""

    def __init__(self, path, context):
        import numpy

        self.tokens, self.context = numpy.fromfile(path, dtype=numpy.uint16), context

    def __len__(self):
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, index):
        begin = index * self.context
        return torch.from_numpy(self.tokens[begin:begin + self.context + 1].astype("int64"))


def build():
    """The model of the run's folder, without weights."""
    import transformers

    return transformers.LlamaForCausalLM(transformers.LlamaConfig.from_pretrained("model"))


def loss_of(model, ids):
    """The sum of the losses of all tokens, and the number of tokens.

    PyTorch's cross_entropy would be off by 3e-6 of the loss, in fp32 on a CPU with AVX-512 (2.15); logsumexp by 1e-7.
    """
    logits, targets = model(input_ids=ids[:, :-1]).logits.float(), ids[:, 1:]
    return (logits.logsumexp(-1) - logits.gather(-1, targets[..., None]).squeeze(-1)).sum(), targets.numel()


def sharded(world):
    """The model under FSDP2, one unit per layer; every rank reads one whole tensor at a time and keeps its shard."""
    from safetensors import safe_open
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    with torch.device("meta"):
        model = build()
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    model.model.rotary_emb = LlamaRotaryEmbedding(model.config)  # a buffer that is not in any file
    with safe_open(os.path.join("model", "model.safetensors"), framework="pt") as file, torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(distribute_tensor(file.get_tensor(name), mesh, parameter.placements))
    assert model.lm_head.weight is model.model.embed_tokens.weight, "the head is not tied any more"
    return model


def peer(kind, options):
    """Runs a rank of DDP or FSDP2."""
    import torch.distributed as dist
    import transformers

    from zerofleet import _core

    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(
            transformers.LlamaForCausalLM.from_pretrained("model", dtype=torch.float32))
    else:
        model = sharded(world)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=options.learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True)
    data = Samples("tokens.bin", options.context)
    order = _core.sample_order(SEED, len(data), options.batch * options.steps)
    share = options.batch // world
    losses, seconds = [], []
    for step in range(options.steps):
        start = time.monotonic()
        first = step * options.batch + rank * share
        total = torch.zeros(())
        for at in range(first, first + share, options.micro):
            ids = torch.stack([data[i] for i in order[at:at + options.micro]])
            last = at + options.micro == first + share
            if kind == "ddp":
                model.require_backward_grad_sync = last
            else:
                model.set_requires_gradient_sync(last)
            loss, count = loss_of(model, ids)
            (loss * world / (options.batch * options.context)).backward()  # DDP and FSDP average gradients over ranks
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        losses.append(float(total) / (options.batch * options.context))
        seconds.append(time.monotonic() - start)
    peak = torch.tensor([float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)])
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        print("RESULT " + json.dumps({"losses": losses, "seconds": seconds, "peak": peak.item()}), flush=True)
    dist.destroy_process_group()


def run_peer(kind, options, folder):
    arguments = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={options.workers}", "--standalone",
                 os.path.abspath(__file__), "--as", kind, *options.given]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{kind}: {done.stderr[-2000:]}")
    return json.loads(lines[-1][len("RESULT "):])


def module(options):
    """Runs Zerofleet over the module, and returns the figures of its report."""
    import zerofleet as zf

    zf.train(build, data=Samples(os.path.abspath("tokens.bin"), options.context), loss=loss_of, weights="model",
             units=["LlamaDecoderLayer"], config=options.config, options=["--report", options.report])


def run_zerofleet(name, settings, options, folder):
    config = {
        "precision": "fp32", "seed": SEED, "steps": options.steps,
        "batch": {"global_sequences": options.batch, "micro_sequences": options.micro},
        "optimizer": {"learning_rate": options.learning_rate, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1,
                      "grad_clip": 1.0},
        "schedule": {"decay": "constant", "warmup_steps": 0}, "evaluate": {"every_steps": 0},
        "checkpoint": {"dir": f"run-{name}", "snapshot": "stream"}, **settings}  # the peers save nothing
    path = os.path.join(folder, f"{name}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    report = os.path.join(folder, f"{name}.jsonl")
    words = [os.path.abspath(__file__), "--as", "module", *options.given, "--config", path, "--report", report]
    if settings.get("model"):
        words = ["-m", "zerofleet", "train", path, "--report", report]
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    with open(report, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    steps = [e for e in events if e["event"] == "step"]
    ranks = next(e for e in events if e["event"] == "end")["ranks"]
    return {"losses": [e["loss"] for e in steps], "seconds": [e["seconds"] for e in steps],
            "peak": max(r["rss_peak_bytes"] for r in ranks)}


def command_line(folder, *arguments):
    done = subprocess.run([sys.executable, "-m", "zerofleet", *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def random_model(options, folder):
    import numpy
    import transformers

    torch.manual_seed(SEED)
    config = transformers.LlamaConfig(
        vocab_size=options.vocab, hidden_size=576, intermediate_size=1536, num_hidden_layers=options.layers,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rope_theta=100000.0,
        rms_norm_eps=1e-5, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(os.path.join(folder, "model"))
    with open(options.text, "rb") as file:
        text = numpy.frombuffer(file.read(1 << 20), dtype=numpy.uint8)
    text.astype(numpy.uint16).tofile(os.path.join(folder, "tokens.bin"))


def prepare(options, folder):
    if options.model:
        os.symlink(os.path.abspath(options.model), os.path.join(folder, "model"))
        command_line(folder, "tokenize", "--tokenizer", "model", "--output", "tokens.bin", options.text)
    else:
        random_model(options, folder)
    command_line(folder, "checkpoint", "import", "model", "start/step-00000000")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as", dest="kind", choices=["ddp", "fsdp2", "module"], help=argparse.SUPPRESS)
    parser.add_argument("--config", help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4, help="sequences a step")
    parser.add_argument("--micro", type=int, default=2, help="sequences a pass")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--stages", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--only", nargs="+", default=["ddp", "fsdp2", "module", "family"],
                        choices=["ddp", "fsdp2", "module", "family"])
    parser.add_argument("--model", help="a folder of transformers', in place of a model of random weights")
    parser.add_argument("--text", default=__file__, help="a text to train on")
    options = parser.parse_args()
    options.given = sys.argv[1:]
    if options.kind == "module":
        module(options)
        return
    if options.kind:
        peer(options.kind, options)
        return
    options.text = os.path.abspath(options.text)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(options, folder)
        for kind in ("ddp", "fsdp2"):
            if kind in options.only:
                found[kind] = run_peer(kind, options, folder)
        for stage in options.stages:
            parallel = {"zero_stage": stage, "workers": options.workers}
            if "module" in options.only:
                found[f"module, stage {stage}"] = run_zerofleet(f"module{stage}", {"parallel": parallel}, options, folder)
            if "family" in options.only:
                found[f"built in, stage {stage}"] = run_zerofleet(
                    f"family{stage}", {"model": {"context": options.context}, "init_from": "start/step-00000000",
                                       "data": {"train": ["tokens.bin"], "format": "tokens_u16"}, "parallel": parallel},
                    options, folder)
    tokens = options.batch * options.context
    first = next(iter(found.values()))
    print(f"{'':20} {'loss':>8} {'at first':>8} {'apart':>8} {'tokens/s':>10} {'peak MiB':>10}")
    for name, one in found.items():
        distances = [abs(a - b) for a, b in zip(one["losses"], first["losses"])]
        rate = tokens / statistics.median(one["seconds"][1:] or one["seconds"])
        print(f"{name:20} {one['losses'][-1]:8.4f} {distances[0]:8.1e} {max(distances):8.1e} {rate:10.1f} "
              f"{one['peak'] / 2**20:10.0f}")


if __name__ == "__main__":
    main()
