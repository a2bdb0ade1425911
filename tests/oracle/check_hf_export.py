#!/usr/bin/env python3
"""Compares an exported checkpoint with Hugging Face transformers: the model that transformers builds from EXPORT_DIR must
give the same mean loss over a file as `zerofleet eval` gives for the checkpoint it came from, within 1e-5.

    scripts/oracle_venv.sh          # once: a virtual environment with torch and transformers
    build/oracle-venv/bin/python3 tests/oracle/check_hf_export.py EXPORT_DIR --checkpoint STEP_DIR --data FILE

A loss that agrees to 1e-5 over thousands of tokens is agreement of the logits: each is a part of it.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import torch
import transformers

TOLERANCE = 1e-5
SAMPLES_AT_ONCE = 16


def hugging_face_loss(export_dir, tokens):
    """Mean cross-entropy in nats over all samples of the file: sample i is tokens [i*context, (i+1)*context]."""
    model, report = transformers.GPT2LMHeadModel.from_pretrained(export_dir, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        # The output head is tied to the embedding, and the causal mask is not a weight.
        odd = [key for key in report.get(kind, []) if not str(key).endswith((".attn.bias", ".masked_bias", "lm_head.weight"))]
        if odd:
            sys.exit(f"transformers reports {kind}: {odd}")
    model.eval()
    context = model.config.n_positions
    samples = (len(tokens) - 1) // context
    total = 0.0
    with torch.no_grad():
        for first in range(0, samples, SAMPLES_AT_ONCE):
            rows = [tokens[i * context:(i + 1) * context + 1] for i in range(first, min(first + SAMPLES_AT_ONCE, samples))]
            batch = torch.tensor(rows)
            logits = model(batch[:, :-1]).logits
            total += torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).double(),
                                                       batch[:, 1:].reshape(-1), reduction="sum").item()
    return total / (samples * context)


def zerofleet_loss(binary, step_dir, data):
    command = [binary, "eval", "--checkpoint", str(step_dir), "--data", str(data), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("export_dir")
    parser.add_argument("--checkpoint", required=True, help="the step directory EXPORT_DIR was exported from")
    parser.add_argument("--data", required=True, help="a text file; its bytes are the tokens")
    parser.add_argument("--zerofleet", default="build/zerofleet")
    arguments = parser.parse_args()

    ours = zerofleet_loss(arguments.zerofleet, arguments.checkpoint, arguments.data)
    theirs = hugging_face_loss(arguments.export_dir, list(pathlib.Path(arguments.data).read_bytes()))
    difference = abs(ours - theirs) / theirs
    print(f"zerofleet {ours:.8f}, transformers {theirs:.8f}, relative difference {difference:.2e}")
    if difference > TOLERANCE:
        sys.exit(f"more than {TOLERANCE}")


if __name__ == "__main__":
    main()
