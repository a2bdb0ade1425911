#!/usr/bin/env python3
"""PyTorch's AdamW on this machine's CPU, over the parameters of a GPT-2: the peer of `zerofleet bench optimizer --offload`.

  bench/peers/torch_adamw.py --layers 12 --hidden 768 --vocab 50257 --context 1024 --threads 2 [--fused]

fp32 parameters, gradients and moments; prints one JSON object with the fastest of the rounds. Nothing is converted or copied to a
device, unlike in the update that it is compared with, which also does that.
"""
import argparse
import json
import time

import torch


def shapes(layers, hidden, vocab, context):
    yield from ((vocab, hidden), (context, hidden))
    for _ in range(layers):
        yield from ((hidden,), (hidden,), (3 * hidden, hidden), (3 * hidden,), (hidden, hidden), (hidden,), (hidden,), (hidden,),
                    (4 * hidden, hidden), (4 * hidden,), (hidden, 4 * hidden), (hidden,))
    yield from ((hidden,), (hidden,))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 12), ("hidden", 768), ("vocab", 50257), ("context", 1024), ("threads", 2), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--fused", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in
                  shapes(options.layers, options.hidden, options.vocab, options.context)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True if options.fused else None)
    optimizer.step()  # creates the moments
    seconds = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"peer": "torch " + torch.__version__ + (", fused" if options.fused else ""), "seconds": min(seconds),
                      "parameters": sum(parameter.numel() for parameter in parameters)}))


if __name__ == "__main__":
    main()
