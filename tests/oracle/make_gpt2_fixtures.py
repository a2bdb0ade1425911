#!/usr/bin/env python3
"""Writes data/gpt2_{a,b}.safetensors: what PyTorch computes for two small GPT-2 shapes.

The C++ tests compare the model, its backward pass and the optimizer with these tensors. To regenerate them:

    apt-get install python3-torch
    /usr/bin/python3 tests/oracle/make_gpt2_fixtures.py            # rewrites the files, byte for byte identical but for
                                                                   # the bf16 losses, whose sums depend on the processor
    /usr/bin/python3 tests/oracle/make_gpt2_fixtures.py --check    # compares with the files in the tree

The reference runs in float64 and is stored as float32, so what is stored is exact to fp32 rounding. The script
also runs the same model in PyTorch's fp32 and refuses to write a fixture that fp32 cannot reach within 1e-5:
a test with that bound then requires no more of C++ than PyTorch itself achieves.

Tensors in a file (with Hugging Face's names; linear weights are (out, in)):
    init/transformer.*       weights before the first step; biases and norms are random too
    tokens                   int32 [B, T+1]: inputs are [:, :-1], targets [:, 1:]
    loss, bf16_loss          mean cross-entropy of that batch in nats; bf16 is the model cast to bfloat16
    grad/transformer.*       gradient of `loss`
    marked_targets, starts   int32 [B, T]: the targets of `tokens`, some of them -1, which do not count, and the position at which
                             each token's document starts; attention and positions stay within documents
    masked_loss              mean cross-entropy per target that counts, without documents
    packed_loss, packed/transformer.*   the same with documents, and its gradient
    step_tokens              int32 [5, B, T+1]: one batch per optimizer step from `init`, with AdamW
    step_losses, step_grad_norms, bf16_step_losses   of the 5 steps; norms before clipping
    after5/transformer.*     weights after the 5 steps
    sgd_step_losses, sgd_step_grad_norms, sgd_after5/transformer.*   the same of 5 steps of SGD with momentum
Shape and hyperparameters are in the file's __metadata__. The key third of every attn.c_attn.bias has a gradient
of exactly zero (softmax ignores a shift that all keys share), so Adam's update for it is rounding noise divided
by its own size: compare `after5` without those elements.

To add a shape, add a row to SHAPES.
"""
import argparse
import json
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

DATA = pathlib.Path(__file__).resolve().parent / "data"
BATCH, STEPS = 4, 5
SHAPES = {
    "a": dict(layers=2, hidden=24, heads=3, context=12, vocab=53, seed=1),
    "b": dict(layers=3, hidden=20, heads=5, context=9, vocab=61, seed=2),
}
GRAD_CLIP = 1.0
ADAMW = dict(learning_rate=5e-3, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, grad_clip=GRAD_CLIP)
SGD = dict(learning_rate=5e-2, momentum=0.9, weight_decay=0.1, grad_clip=GRAD_CLIP)
TOLERANCE = 1e-5
SGD_TOLERANCE = 1e-6  # of the weights: SGD divides by nothing that could be small


def tensor_table(layers, hidden, context, vocab, **_):
    """(name, shape) of every weight, in Hugging Face's order."""
    c = hidden
    yield "wte.weight", (vocab, c)
    yield "wpe.weight", (context, c)
    for i in range(layers):
        for name, shape in (("ln_1.weight", (c,)), ("ln_1.bias", (c,)),
                            ("attn.c_attn.weight", (3 * c, c)), ("attn.c_attn.bias", (3 * c,)),
                            ("attn.c_proj.weight", (c, c)), ("attn.c_proj.bias", (c,)),
                            ("ln_2.weight", (c,)), ("ln_2.bias", (c,)),
                            ("mlp.c_fc.weight", (4 * c, c)), ("mlp.c_fc.bias", (4 * c,)),
                            ("mlp.c_proj.weight", (c, 4 * c)), ("mlp.c_proj.bias", (c,))):
            yield f"h.{i}.{name}", shape
    yield "ln_f.weight", (c,)
    yield "ln_f.bias", (c,)


def initial_weights(shape, generator):
    """Larger than GPT-2's own initialisation, so that no gradient is lost in rounding; rounded to float32."""
    weights = {}
    for name, size in tensor_table(**shape):
        noise = torch.randn(size, generator=generator, dtype=torch.float64)
        value = 1 + 0.2 * noise if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")) else 0.2 * noise
        weights["transformer." + name] = value.float().double()
    return weights


def mean_loss(weights, tokens, shape, targets=None, starts=None):
    """GPT-2: pre-norm, learned positions, tanh GELU, tied output embedding, epsilon 1e-5. Targets of -1 do not count; `starts`
    is where each token's document starts."""
    def w(name):
        return weights["transformer." + name]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w(name + ".weight"), w(name + ".bias"), 1e-5)

    def linear(x, name):
        return F.linear(x, w(name + ".weight"), w(name + ".bias"))

    inputs = tokens[:, :-1]
    targets = tokens[:, 1:] if targets is None else targets
    b, t, c, heads = *inputs.shape, shape["hidden"], shape["heads"]
    future = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
    positions = torch.arange(t)
    if starts is not None:
        future = (future | (positions < starts[:, :, None])).unsqueeze(1)
        positions = positions - starts
    x = w("wte.weight")[inputs] + w("wpe.weight")[positions]
    for i in range(shape["layers"]):
        block = f"h.{i}."
        qkv = linear(norm(x, block + "ln_1"), block + "attn.c_attn").split(c, dim=2)
        q, k, v = (part.view(b, t, heads, c // heads).transpose(1, 2) for part in qkv)
        scores = (q @ k.transpose(-2, -1)) / (c // heads) ** 0.5
        attention = F.softmax(scores.masked_fill(future, float("-inf")), -1)
        x = x + linear((attention @ v).transpose(1, 2).reshape(b, t, c), block + "attn.c_proj")
        inner = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, block + "mlp.c_proj")
    logits = norm(x, "ln_f") @ w("wte.weight").t()
    if logits.dtype == torch.bfloat16:
        logits = logits.float()
    return F.cross_entropy(logits.reshape(-1, shape["vocab"]), targets.reshape(-1).long(), ignore_index=-1)


def decays(name):
    """Matrices and the token embedding take weight decay; biases, norms and the position embedding do not."""
    return name.endswith(".weight") and not name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "wpe.weight"))


def optimizer_of(masters, optimizer):
    """torch.optim.AdamW or SGD over tensors that decay and those that do not."""
    settings = dict(AdamW=ADAMW, SGD=SGD)[optimizer]
    groups = [dict(params=[p for n, p in masters.items() if decays(n)], weight_decay=settings["weight_decay"]),
              dict(params=[p for n, p in masters.items() if not decays(n)], weight_decay=0.0)]
    if optimizer == "SGD":
        return torch.optim.SGD(groups, lr=SGD["learning_rate"], momentum=SGD["momentum"], dampening=0, nesterov=False)
    return torch.optim.AdamW(groups, lr=ADAMW["learning_rate"], betas=(ADAMW["beta1"], ADAMW["beta2"]),
                             eps=ADAMW["epsilon"])


def train(weights, step_tokens, shape, dtype, optimizer="AdamW"):
    """STEPS steps of the optimizer; returns losses, gradient norms before clipping, and the weights after. A bf16 run computes
    with weights cast to bfloat16 and updates float32 masters, as mixed-precision training does."""
    master_dtype = torch.float32 if dtype == torch.bfloat16 else dtype
    masters = {name: value.to(master_dtype).clone().requires_grad_() for name, value in weights.items()}
    step = optimizer_of(masters, optimizer)
    losses, norms = [], []
    for tokens in step_tokens:
        step.zero_grad()
        loss = mean_loss({n: p.to(dtype) for n, p in masters.items()}, tokens, shape)
        loss.backward()
        # By hand: clip_grad_norm_ adds 1e-6 to the norm it divides by.
        norm = torch.sqrt(sum((p.grad.double() ** 2).sum() for p in masters.values()))
        for p in masters.values():
            p.grad.mul_(min(1.0, GRAD_CLIP / norm.item()))
        step.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms, {name: p.detach() for name, p in masters.items()}


def loss_and_gradients(weights, tokens, shape, dtype, targets=None, starts=None):
    leaves = {name: value.to(dtype).clone().requires_grad_() for name, value in weights.items()}
    loss = mean_loss(leaves, tokens, shape, targets, starts)
    loss.backward()
    return loss.item(), {name: leaf.grad for name, leaf in leaves.items()}


def relative_difference(got, want):
    got, want = torch.as_tensor(got).double(), torch.as_tensor(want).double()
    return ((got - want).abs().max() / want.abs().max()).item()


def without_key_bias(name, value):
    if not name.endswith("attn.c_attn.bias"):
        return value
    third = value.numel() // 3
    return torch.cat([value[:third], value[2 * third:]])


def check_fp32_reaches(fixture, weights, tokens, step_tokens, shape):
    """PyTorch's own fp32 must come within TOLERANCE of every stored tensor, relative to the tensor's largest element."""
    loss, gradients = loss_and_gradients(weights, tokens, shape, torch.float32)
    losses, norms, after = train(weights, step_tokens, shape, torch.float32)
    differences = {"loss": relative_difference(loss, fixture["loss"]),
                   "step_losses": relative_difference(losses, fixture["step_losses"]),
                   "step_grad_norms": relative_difference(norms, fixture["step_grad_norms"])}
    for prefix, values in (("grad/", gradients), ("after5/", after)):
        for name, value in values.items():
            want = without_key_bias(name, fixture[prefix + name])
            differences[prefix + name] = relative_difference(without_key_bias(name, value), want)
    _, _, sgd_after = train(weights, step_tokens, shape, torch.float32, "SGD")
    for name, value in sgd_after.items():
        sgd_difference = relative_difference(value, fixture["sgd_after5/" + name])
        if sgd_difference > SGD_TOLERANCE:
            sys.exit(f"sgd_after5/{name}: fp32 differs by {sgd_difference:.2e}, more than {SGD_TOLERANCE}")
    worst = max(differences, key=differences.get)
    print(f"  fp32 against float64: largest relative difference {differences[worst]:.2e} at {worst}")
    if differences[worst] > TOLERANCE:
        sys.exit(f"{worst} is not within {TOLERANCE} of fp32: choose another seed or scale")


def packed_documents(tokens, shape):
    """Three documents in each sample, of other lengths in each; the last target of a document does not count, nor do some others."""
    size = (BATCH, shape["context"])
    starts, targets = torch.zeros(size, dtype=torch.int64), tokens[:, 1:].clone()
    for b in range(BATCH):
        for begin in (2 + b, 6 + b % 2):
            starts[b, begin:] = begin
            targets[b, begin - 1] = -1
    targets[0, :5] = -1
    targets[2] = -1
    return starts, targets


def build_fixture(shape):
    generator = torch.Generator().manual_seed(shape["seed"])
    weights = initial_weights(shape, generator)
    size = (BATCH, shape["context"] + 1)
    tokens = torch.randint(0, shape["vocab"], size, generator=generator)
    step_tokens = torch.randint(0, shape["vocab"], (STEPS, *size), generator=generator)

    loss, gradients = loss_and_gradients(weights, tokens, shape, torch.float64)
    losses, norms, after = train(weights, step_tokens, shape, torch.float64)
    sgd_losses, sgd_norms, sgd_after = train(weights, step_tokens, shape, torch.float64, "SGD")
    bf16_loss, _ = loss_and_gradients(weights, tokens, shape, torch.bfloat16)
    bf16_losses, _, _ = train(weights, step_tokens, shape, torch.bfloat16)
    print(f"  loss {loss:.6f}, bf16 {bf16_loss:.6f}; steps {[round(x, 4) for x in losses]}, "
          f"norms {[round(x, 4) for x in norms]}")
    assert any(norm > GRAD_CLIP for norm in norms) and any(norm > GRAD_CLIP for norm in sgd_norms), "no step clips"

    starts, marked = packed_documents(tokens, shape)
    masked_loss, _ = loss_and_gradients(weights, tokens, shape, torch.float64, marked)
    packed_loss, packed = loss_and_gradients(weights, tokens, shape, torch.float64, marked, starts)

    def f32(values):
        return torch.tensor(values, dtype=torch.float64).float().reshape(-1)

    fixture = {f"init/{name}": value.float() for name, value in weights.items()}
    fixture.update({f"grad/{name}": value.float() for name, value in gradients.items()})
    fixture.update({f"after5/{name}": value.float() for name, value in after.items()})
    fixture.update({f"sgd_after5/{name}": value.float() for name, value in sgd_after.items()})
    fixture.update(sgd_step_losses=f32(sgd_losses), sgd_step_grad_norms=f32(sgd_norms))
    fixture.update({f"packed/{name}": value.float() for name, value in packed.items()})
    fixture.update(starts=starts.int(), marked_targets=marked.int(), masked_loss=f32(masked_loss), packed_loss=f32(packed_loss))
    fixture.update(tokens=tokens.int(), loss=f32(loss), bf16_loss=f32(bf16_loss), step_tokens=step_tokens.int(),
                   step_losses=f32(losses), step_grad_norms=f32(norms), bf16_step_losses=f32(bf16_losses))
    check_fp32_reaches(fixture, weights, tokens, step_tokens, shape)
    return fixture


def encode_safetensors(tensors, metadata):
    """An 8-byte little-endian header length, the JSON header padded to 8 bytes, then the tensors' bytes."""
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in sorted(tensors.items()):
        blob = tensor.contiguous().numpy().astype("<i4" if tensor.dtype == torch.int32 else "<f4").tobytes()
        header[name] = {"dtype": "I32" if tensor.dtype == torch.int32 else "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file in the tree differs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    stale = []
    for key, shape in SHAPES.items():
        print(f"gpt2_{key}: {shape}")
        metadata = {name: repr(value) for name, value in {**shape, "batch": BATCH, **ADAMW}.items()}
        metadata.update({"sgd_" + name: repr(value) for name, value in SGD.items()})
        data = encode_safetensors(build_fixture(shape), metadata)
        path = DATA / f"gpt2_{key}.safetensors"
        if not arguments.check:
            DATA.mkdir(exist_ok=True)
            path.write_bytes(data)
            print(f"  wrote {path.name}, {len(data)} bytes")
        elif not path.exists() or path.read_bytes() != data:
            stale.append(path.name)
    if stale:
        sys.exit(f"differs from what this script makes: {', '.join(stale)}")


if __name__ == "__main__":
    main()
