#!/usr/bin/env python3
"""Counts what a training step of GPT-2 launches on a GPU, and holds docs/gpu_step.md to it.

    tests/gpu_step_check.py PROGRAM             PROGRAM is worker/zero/step_launches of a build with an emulated GPU, by clang
    tests/gpu_step_check.py PROGRAM --update    writes the page's table again: for an intended change
    tests/gpu_step_check.py --self-test         checks that each rule sees its own breach; needs no program

Each row below is one kernel of ours, or one kind of call of NVIDIA's libraries, with formulas for its launches in a step and for the bytes
that they read and write. The program lists what the engine and the GPU path really launch, kernel by kernel, in two ways:

  small     a model that runs on the emulated GPU, which counts the bytes that each kernel touches: the formulas' launches must be the
            same, and their bytes within 3%, or within a few for kernels that touch next to nothing
  the page  gpt2-1558m, of which nothing runs: the formulas' launches and the products' shapes must be the same

A launch that no row accounts for is an error too. A kernel's bytes count each byte once per launch, as if a cache kept it; a library's
call has its operands' bytes.
"""
import argparse
import collections
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_attention_check  # noqa: E402
import gpu_kernels_check  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "gpu_step.md"
BEGIN, END = "<!-- table: tests/gpu_step_check.py --update -->", "<!-- end of table -->"
Size = collections.namedtuple("Size", "layers hidden heads context vocab sequences")
SMALL, LARGE = Size(2, 192, 3, 64, 257, 4), Size(48, 1600, 25, 1024, 50257, 16)
WITHIN, FEW_BYTES = 0.03, 128

# An H100, bench/results/2026-11-28-h100.md: bytes/s of a copy in bf16, FLOP/s of the best product.
COPY, PRODUCT = 2998e9, 807e12
FORWARD_NORM = 2171e9
OPTIMIZER, ATTENTION_FORWARD, ATTENTION_BACKWARD = 3000e9, 332e12, 175e12
# Milliseconds of the step's ops, and what of the table they are.
MEASURED = {
    "LinearForward, LinearGeluForward": (81.8, ("qkv", "projection", "fc", "out", "GeluForward")),
    "LinearBackwardInput, with and without GELU's slope": (74.5, ("qkv, input", "projection, input", "fc, input", "out, input")),
    "LinearBackwardWeight": (82.9, ("qkv, weight", "projection, weight", "fc, weight", "out, weight", "LinearBackwardWeight")),
    "AttentionBackward": (41.6, ("AttentionBackward",)),
    "AttentionForward": (9.2, ("AttentionForward",)),
    "CrossEntropy": (13.5, ("head", "head, input", "head, weight", "head, weight, odd rows", "CrossEntropy")),
    "LayerNormBackward, LayerNormForward": (18.9, ("LayerNormBackward", "LayerNormForward")),
    "AdamW": (15.2, ("AdamW",)),
    "all others": (7.2, ()),
}

# --- Own kernels: (op, kernel): launches, bytes read, bytes written, bytes per second. Bytes are those of all launches.
#
# L layers, C hidden, T context, V vocabulary, M tokens, P parameters, N = 2 L + 1 norms, R rows of logits at a time, U different tokens,
# S partial sums of squares. chunks(m, n): rows of partial sums down the columns of an m x n matrix; norm_chunks: those of a norm's backward.
# A weight, an activation and a gradient at rest have 2 bytes per element, and so does the gradient of a block's weight; other gradients
# before that, an optimizer's state and a partial sum have 4.
KERNELS = {
    ("EmbeddingForward", "ForwardKernel"): ("1", "4 M + 2 C (U + T)", "2 M C", COPY),
    ("LayerNormForward", "ForwardKernel"): ("N", "N (2 M C + 4 C)", "N (2 M C + 8 M)", FORWARD_NORM),
    ("GeluForward", "MapKernel GeluSource"): ("L", "8 L M C", "8 L M C", COPY),
    ("CrossEntropy", "MapKernel PaddedSource"): ("1", "2 V C", "2 C stride(V)", COPY),
    ("CrossEntropy", "CrossEntropyKernel"): ("M / R", "2 M whole(V) + 4 M", "2 M V + 8 M", COPY),
    ("CrossEntropy", "SumLossesKernel"): ("1", "8 M", "8", COPY),
    ("LayerNormBackward", "NormBackwardKernel"):
        ("N", "N (6 M C + 2 C + 8 M)", "2 N M C + 8 N C norm_chunks(M, C)", COPY),
    ("LayerNormBackward", "ChunkSumKernel"): ("N", "8 N C (norm_chunks(M, C) + 1)", "8 N C", COPY),
    ("LinearBackwardWeight", "ColumnKernel"): ("4 L", "18 L M C", "4 L C (2 chunks(M, C) + 3 chunks(M, 3 C) + 4 chunks(M, 4 C))", COPY),
    ("LinearBackwardWeight", "ChunkSumKernel"):
        ("4 L", "4 L C (2 chunks(M, C) + 3 chunks(M, 3 C) + 4 chunks(M, 4 C) + 9)", "36 L C", COPY),
    ("EmbeddingBackward", "LinkKernel"): ("1", "4 M", "4 M + 4 (M - U)", COPY),
    ("EmbeddingBackward", "ChainKernel"): ("1", "2 M C + 4 U C + 12 M", "4 U C", COPY),
    ("EmbeddingBackward", "PositionKernel"): ("1", "2 M C + 4 T C", "4 T C", COPY),
    # The embedding, the final norm, and five runs of a block's vectors.
    ("Convert", "MapKernel TensorSource"): ("5 L + 2", "4 (P - 12 L C C)", "2 (P - 12 L C C)", COPY),
    ("SumSquares", "SumSquaresKernel"): ("L + 2", "2 P", "8 S", COPY),
    ("SumSquares", "SumPartialsKernel"): ("L + 2", "8 S", "8 (L + 2)", COPY),
    ("AdamW", "UpdateKernel AdamWRule"): ("L + 2", "14 P", "14 P", OPTIMIZER),
    ("BeginStep", "BeginStepKernel"): ("1", "8", "8", COPY),
    ("SumScalars", "SumScalarsKernel"): ("1", "8", "8", COPY),
    ("DecideStep", "DecideStepKernel"): ("1", "8", "8", COPY),
}

# --- Fills and copies: launches, bytes read and written.
CALLS = {
    # Sums of gradients that are added to, the final norm's dx, and marks of the embedding's chains.
    "cudaMemsetAsync": ("L + 4", "0", "4 (P - 12 L C C) + 2 M C + 4 M", COPY),
    # Tokens and targets up, the residual's gradient from the final norm to the blocks, the step's own numbers.
    "cudaMemcpyAsync": ("4", "2 M C", "2 M C + 8 M", COPY),
}

# --- cuBLASLt's products: m, n, k, whether the output is fp32 sums, what else is read, launches, FLOP/s. For a layer's weights the rate
# is that of the product and the column sums of its bias together.
PRODUCTS = {
    "qkv": ("M", "3 C", "C", "bias", "L", 0.91 * PRODUCT),
    "projection": ("M", "C", "C", "add bias", "L", 0.72 * PRODUCT),
    "fc": ("M", "4 C", "C", "bias", "L", 0.93 * PRODUCT),
    "out": ("M", "C", "4 C", "add bias", "L", 0.81 * PRODUCT),
    "head": ("R", "stride(V)", "C", "", "M / R", 0.73 * PRODUCT),
    "head, input": ("R", "C", "stride(V)", "", "M / R", 0.73 * PRODUCT),
    "head, weight": ("even(V)", "C", "R", "sums add", "M / R", 0.73 * PRODUCT),
    "head, weight, odd rows": ("V - even(V)", "C", "R", "sums add", "M / R", 0.73 * PRODUCT),
    "out, input": ("M", "4 C", "C", "aux", "L", 0.82 * PRODUCT),
    "fc, input": ("M", "C", "4 C", "", "L", 0.93 * PRODUCT),
    "projection, input": ("M", "C", "C", "", "L", 0.82 * PRODUCT),
    "qkv, input": ("M", "C", "3 C", "", "L", 0.92 * PRODUCT),
    "out, weight": ("C", "4 C", "M", "", "L", 678e12),
    "fc, weight": ("4 C", "C", "M", "", "L", 600e12),
    "projection, weight": ("C", "C", "M", "", "L", 504e12),
    "qkv, weight": ("3 C", "C", "M", "", "L", 562e12),
}
# --- cuDNN's attention: products over half of all pairs, tensors of M C elements read and written, FLOP/s.
ATTENTION = {"cudnnAttentionForward": (2, 3, 1, ATTENTION_FORWARD), "cudnnAttentionBackward": (5, 5, 3, ATTENTION_BACKWARD)}


def whole(count, unit=8):
    return -(-count // unit) * unit


def chunks(m, n):  # column_sums.cuh
    most = min(256, -(-1024 // -(-n // 256)))
    return -(-m // max(64, -(-m // most)))


def norm_chunks(m, c):  # norm_backward.cuh
    warps = min(512, whole(-(-c // 8), 32)) // 32
    return -(-m // max(8, -(-m // (132 * max(1, 24 // warps)))))


def head_rows(m, v):  # cross_entropy.cu, CrossEntropyPlan
    fit = max(1, min(m, (512 << 20) // (2 * whole(v, 64))))
    return min(fit, whole(-(-m // -(-m // fit)), 128))


class Formulas:
    """The values of formulas at a size; `2 M C` is a product."""

    def __init__(self, size, different):
        self.size = size
        layers, c, v = size.layers, size.hidden, size.vocab
        m = size.sequences * size.context
        units = (v * c + size.context * c, *[12 * c * c + 13 * c] * layers, 2 * c)
        self.names = {
            "L": layers, "C": c, "T": size.context, "V": v, "M": m, "N": 2 * layers + 1, "R": head_rows(m, v),
            "P": sum(units), "S": sum(min(1024, -(-unit // 8192)) for unit in units),  # flat_vectors.cu, SumSquares
            "U": different or v * (1 - (1 - 1 / v) ** m),  # expected of random tokens
            "chunks": chunks, "norm_chunks": norm_chunks, "whole": whole, "stride": lambda v: whole(v, 64), "even": lambda v: v // 8 * 8}

    def __call__(self, formula):
        words = formula.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
        text = ""
        for before, word in zip([""] + words, words):
            ends = before == ")" or before.isidentifier() or before.isdigit()
            begins = word == "(" or word.isidentifier() or word.isdigit()
            calls = word == "(" and callable(self.names.get(before))
            text += (" * " if ends and begins and not calls else " ") + word
        return eval(text, {"__builtins__": {}}, self.names)  # formulas are this file's own


Work = collections.namedtuple("Work", "launches read written flops seconds", defaults=(0, 0))


def predicted(size, different=None):
    """{key: Work} of each row at that size; a key is (what, kernel or shape)."""
    f = Formulas(size, different)
    rows = {}
    for key, (launches, read, written, rate) in KERNELS.items():
        rows[key] = Work(f(launches), f(read), f(written), 0, (f(read) + f(written)) / rate)
    for what, (launches, read, written, rate) in CALLS.items():
        rows[what, ""] = Work(f(launches), f(read), f(written), 0, (f(read) + f(written)) / rate)
    for name, (*extents, reads, launches, rate) in PRODUCTS.items():
        m, n, k = map(f, extents)
        each, flops = (4 if "sums" in reads else 2), 2 * m * n * k * f(launches)
        read = 2 * (m + n) * k + each * (m * n * (("add" in reads) + ("aux" in reads)) + n * ("bias" in reads))
        shape = f"{m} {n} {k} bf16 {'fp32' if each == 4 else 'bf16'} {reads.replace('sums', '')}"
        rows["cublasLtMatmul", " ".join(shape.split())] = Work(f(launches), f(launches) * read, f(launches) * each * m * n, flops, flops / rate)
    for what, (products, read, written, rate) in ATTENTION.items():
        each, flops = f("2 L M C"), products * f("L M T C")
        rows[what, f"{size.sequences} {size.heads} {size.context} {size.hidden // size.heads} bf16"] = Work(
            size.layers, read * each, written * each, flops, flops / rate)
    return rows


def symbols(program):
    """{address: short name} of the program's functions."""
    listed = subprocess.run(["nm", "-C", str(program)], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        address, kind, name = (line.split(" ", 2) + ["", ""])[:3]
        if kind in ("t", "T", "W", "w") and "Kernel" in name:
            found[int(address, 16)] = gpu_kernels_check.short_name(name)
    return found


def counted(program, names, mode, size, stage=0):
    """({key: Work}, different tokens or none) as the program lists it."""
    command = [str(program), mode, *map(str, size), str(stage)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    different = int(lines.pop(0)) if mode == "run" else None
    rows = {}
    for line in lines:
        what, address, shape, launches, flops, read, written = line.split("\t")
        key = (what, names[int(address, 16)] if address != "0" else shape)
        before = rows.get(key, Work(0, 0, 0))
        rows[key] = Work(before.launches + int(launches), before.read + int(read), before.written + int(written),
                         before.flops + float(flops))
    return rows, different


def close(formula, count):
    return abs(formula - count) <= max(WITHIN * count, FEW_BYTES)


def differences(formulas, counts, touched):
    """Lines that say where the formulas differ from what was counted; `touched`: kernels ran, so their bytes were counted."""
    for key in sorted(formulas.keys() | counts.keys()):
        where = ", ".join(filter(None, key))
        if key not in formulas:
            yield f"{where}: launched {counts[key].launches} times, and in no row"
            continue
        if key not in counts:
            yield f"{where}: in a row, and never launched"
            continue
        formula, count = formulas[key], counts[key]
        if formula.launches != count.launches:
            yield f"{where}: {formula.launches:g} launches by the formula, {count.launches} were made"
        if touched or key not in KERNELS:
            for name in ("read", "written", "flops"):
                if not close(getattr(formula, name), getattr(count, name)):
                    yield f"{where}: {name} {getattr(formula, name):.0f} by the formula, {getattr(count, name):.0f} counted"


def plans_of_backward():
    """How many plans cuDNN runs for one layer's backward: the batch is cut (attention_cudnn.cc)."""
    rows = [line.split("\t") for line in gpu_attention_check.TABLE.read_text(encoding="utf-8").splitlines()[1:]]
    table = [dict(zip(gpu_attention_check.COLUMNS, row)) for row in rows]
    sequences = {int(row["B"]) for row in table
                 if (row["gpu"], row["model"], row["direction"], row["type"]) == ("H100", "gpt2-1558m", "backward", "bf16")}
    return math.ceil(LARGE.sequences / max(sequences))


def named(rows):
    """[(op or product, kernel or call, Work, registers and occupancy)] of each row, in the order of a step."""
    _, kernels = gpu_kernels_check.read_table()
    products = iter(PRODUCTS)
    found = []
    for key, work in rows.items():
        op, what = key
        code = ""
        if key in KERNELS:
            row = kernels[what, 90]
            code = f"{row['registers']}, {row['occupancy']}%"
        elif op == "cublasLtMatmul":
            op, what = next(products), " x ".join(what.split()[:3])
        elif op in ATTENTION:
            op, what = op.removeprefix("cudnn"), "cuDNN"
        else:
            op, what = "", op
        found.append((op, what, work, code))
    return found


def tables(rows):
    """The page's tables, and the sum of the first."""
    lines = ["| op | kernel or call | launches | read, GB | written, GB | TFLOP | registers, occupancy | ms |", "|---|---|---|---|---|---|---|---|"]
    total, by_op = Work(0, 0, 0), collections.Counter()
    for op, what, work, code in [*named(rows), ("**all**", "", None, "")]:
        shown = work or total
        flops = f"{shown.flops / 1e12:.1f}" if shown.flops > 5e10 else ""
        lines.append(f"| {op} | {what} | {shown.launches:.0f} | {shown.read / 1e9:.2f} | {shown.written / 1e9:.2f} | {flops} | {code} | "
                     f"{shown.seconds * 1e3:.2f} |")
        if work:
            by_op[op] += work.seconds * 1e3
            total = Work(*(a + b for a, b in zip(total, work)))
    lines += ["", "| ops | ms by the table | measured |", "|---|---|---|"]
    for ops, (measured, parts) in MEASURED.items():
        of_ops = sum(by_op.pop(part) for part in parts) if parts else sum(by_op.values())
        lines.append(f"| {ops} | {of_ops:.1f} | {measured} |")
    lines.append(f"| **all** | {total.seconds * 1e3:.1f} | {sum(measured for measured, _ in MEASURED.values()):.1f} |")
    return lines, total


def with_shared_rates(rows):
    """The products of weights, whose rates include the column sums of a bias, without these."""
    sums = sum(rows["LinearBackwardWeight", kernel].seconds for kernel in ("ColumnKernel", "ChunkSumKernel"))
    names = dict(zip([key for key in rows if key[0] == "cublasLtMatmul"], PRODUCTS))
    widths = {"qkv, weight": 3, "projection, weight": 1, "fc, weight": 4, "out, weight": 1}
    return {key: work._replace(seconds=work.seconds - sums * widths[names[key]] / 9) if names.get(key) in widths else work
            for key, work in rows.items()}


def page_text(lines):
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    return head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1]


def self_test():
    """What is wrong with the rules, if anything."""
    rows = predicted(SMALL, 100)
    norm, product = ("LayerNormForward", "ForwardKernel"), next(key for key in rows if key[0] == "cublasLtMatmul")
    without_norm = {key: work for key, work in rows.items() if key != norm}
    more = 1 + 1.1 * WITHIN
    changed = {
        "one launch more": {**rows, norm: rows[norm]._replace(launches=rows[norm].launches + 1)},
        "a kernel that reads more": {**rows, norm: rows[norm]._replace(read=rows[norm].read * more)},
        "a kernel that writes more": {**rows, norm: rows[norm]._replace(written=rows[norm].written * more)},
        "a product of more operations": {**rows, product: rows[product]._replace(flops=rows[product].flops * more)},
        "a kernel that is not launched": without_norm,
        "a kernel without a row": {**rows, ("Other", "OtherKernel"): Work(1, 0, 0)},
    }
    found = {name: list(differences(rows, counts, True)) for name, counts in changed.items()}
    return [f"{name} was not seen" for name, lines in found.items() if len(lines) != 1] + list(differences(rows, rows, True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, nargs="?")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        sys.exit("\n".join(self_test()) or None)
    if not options.program:
        parser.error("PROGRAM is missing")
    names = symbols(options.program)
    counts, different = counted(options.program, names, "run", SMALL)
    faults = [f"small: {line}" for line in differences(predicted(SMALL, different), counts, True)]
    large = predicted(LARGE)
    stages = [counted(options.program, names, "skip", LARGE, stage)[0] for stage in range(4)]
    faults += [f"gpt2-1558m: {line}" for line in differences(large, stages[0], False)]
    lines, total = tables(with_shared_rates(large))
    launches = [sum(work.launches for work in rows.values()) for rows in stages]
    lines += ["", f"Launches of a step in stages 0 to 3: {', '.join(map(str, launches))}."]
    print(f"gpt2-1558m: {total.launches:.0f} launches, {(total.read + total.written) / 1e9:.1f} GB, {total.flops / 1e12:.1f} TFLOP, "
          f"{total.seconds * 1e3:.1f} ms; {plans_of_backward()} plans of cuDNN per layer's backward")
    if options.update:
        PAGE.write_text(page_text(lines), encoding="utf-8")
    elif page_text(lines) != PAGE.read_text(encoding="utf-8"):
        faults.append(f"{PAGE.name}: its table is another; after an intended change: tests/gpu_step_check.py PROGRAM --update")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
