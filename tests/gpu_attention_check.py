#!/usr/bin/env python3
"""Checks how cuDNN would run the models' attention on GPUs that are not here against gpu_attention.tsv.

    tests/gpu_attention_check.py PROGRAM [--libraries FOLDER]             compares what tests/gpu/attention_plans prints with the table
    tests/gpu_attention_check.py PROGRAM [--libraries FOLDER] --update    writes the rows of this cuDNN again: for an intended change
    tests/gpu_attention_check.py --self-test                              checks that each rule sees its own breach; needs no cuDNN

It needs cuDNN, cuBLASLt and NVRTC, in the folder, in LD_LIBRARY_PATH or in python3's packages, and neither a GPU nor a driver. The
table has rows of some versions of cuDNN; with another, or where a library is missing, it says so and exits with 77.

Besides matching the table, an H100 must have a plan for every shape, and a backward's workspace must be what attention_cudnn.cc
expects when it cuts the batch: the scores of its heads and a little more. A row is one plan: B sequences of T positions with H heads of
size D, the plan's kernels, the bytes of workspace that cuDNN states, or its reason for having no plan.
"""
import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys

TABLE = pathlib.Path(__file__).resolve().parent / "gpu_attention.tsv"
KEYS = ("cudnn", "gpu", "model", "direction", "type", "B", "H", "T", "D")
COLUMNS = (*KEYS, "kernels", "workspace", "refusal")
# Libraries of one release, which must come from one folder.
TOGETHER = (("libcudnn.so.9", "libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9"),
            ("libcublasLt.so.13", "libnvrtc.so.13"))
PACKAGES = ("nvidia.cudnn", "nvidia.cu13")
SPARE_BYTES = 64 << 10  # attention_cudnn.cc, kSpareBytes


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def places(given):
    """Folders where NVIDIA's libraries may be."""
    found = [given] if given else []
    found += [pathlib.Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for package in PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        found += [pathlib.Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec else []
    return found


def folders(given):
    """The folders with what is needed."""
    chosen = []
    for libraries in TOGETHER:
        whole = [place for place in places(given) if all((place / library).exists() for library in libraries)]
        if not whole:
            skip(f"there is no folder with {', '.join(libraries)}: scripts/setup.sh cuda-libraries makes one")
        chosen.append(whole[0])
    return chosen


def print_plans(program, where):
    """What the program prints, with the libraries of these folders."""
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, where))}
    ran = subprocess.run([program], capture_output=True, text=True, env=environment, check=False)
    if ran.returncode != 0:
        sys.exit(f"{program} ended with {ran.returncode}: {ran.stderr.strip() or ran.stdout.strip()}")
    return ran.stdout


def read_plans(text):
    """(cuDNN's version, its rows) of what the program prints."""
    head, *lines = text.splitlines()
    number = int(head.removeprefix("# cuDNN "))
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return version, [dict(zip(COLUMNS, (version, *line.split("\t")))) for line in lines]


def read_table():
    head, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    assert tuple(head.split("\t")) == COLUMNS, head
    return [dict(zip(COLUMNS, line.split("\t"))) for line in lines]


def write_table(rows):
    lines = ["\t".join(COLUMNS), *("\t".join(row[column] for column in COLUMNS) for row in rows)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def name_of(row):
    return " ".join(row[key] for key in KEYS)


def scores_bytes(row):
    """The backward's scores as cuDNN stores them: 2 bytes each, with both sides rounded up to its tiles."""
    batch, heads, time = (int(row[key]) for key in ("B", "H", "T"))
    return batch * heads * (-(-time // 64) * 64) * (-(-time // 128) * 128) * 2


def broken_rules(rows):
    for row in rows:
        if row["gpu"] == "H100" and row["refusal"] != "-":
            yield f"{name_of(row)}: an H100 must have a plan: {row['refusal']}"
        if row["direction"] == "backward" and row["refusal"] == "-":
            over = int(row["workspace"]) - scores_bytes(row)
            if not 0 <= over <= SPARE_BYTES:
                yield f"{name_of(row)}: the workspace is {over} bytes over the scores; must be within 0 and {SPARE_BYTES}"


def differences(wanted, got):
    wanted, got = ({name_of(row): row for row in rows} for rows in (wanted, got))
    for name in sorted(wanted.keys() | got.keys()):
        if name not in got:
            yield f"{name}: in the table, and cuDNN was not asked"
        elif name not in wanted:
            yield f"{name}: not in the table"
        else:
            changed = [f"{column} {wanted[name][column]} -> {got[name][column]}" for column in COLUMNS[len(KEYS):]
                       if wanted[name][column] != got[name][column]]
            if changed:
                yield f"{name}: {', '.join(changed)}"


def self_test():
    version, rows = read_plans("# cuDNN 91900\nH100\tgpt2\tbackward\tbf16\t2\t3\t100\t64\tkernel\t98560\t-\n")
    assert version == "9.19.0" and len(rows) == 1 and set(rows[0]) == set(COLUMNS), rows
    good = rows[0]
    assert scores_bytes(good) == 2 * 3 * 128 * 128 * 2
    good["workspace"] = str(scores_bytes(good) + 256)
    assert list(broken_rules([good])) == []
    assert list(broken_rules([{**good, "refusal": "none"}])), "a refusal was not seen"
    for over in (-1, SPARE_BYTES + 1):
        assert list(broken_rules([{**good, "workspace": str(scores_bytes(good) + over)}])), "another workspace was not seen"
    assert list(broken_rules([{**good, "gpu": "A100", "workspace": "-", "refusal": "none"}])) == []
    assert list(differences([good], [good])) == []
    for column in COLUMNS[len(KEYS):]:
        assert list(differences([good], [{**good, column: "7"}])), f"a change of {column} was not seen"
    assert list(differences([], [good])) and list(differences([good], [])), "a row too many was not seen"
    # The committed table keeps the rules too.
    assert list(broken_rules(read_table())) == []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?")
    parser.add_argument("--libraries", type=pathlib.Path, help="a folder with NVIDIA's libraries")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.program is None:
        parser.error("the program attention_plans is needed")
    version, rows = read_plans(print_plans(arguments.program, folders(arguments.libraries)))
    table = read_table() if TABLE.exists() else []
    wanted = [row for row in table if row["cudnn"] == version]
    if not wanted and not arguments.update:
        skip(f"{TABLE.name} has no rows of cuDNN {version}")
    broken = list(broken_rules(rows))
    if arguments.update:
        write_table([row for row in table if row["cudnn"] != version] + rows)
    else:
        broken += differences(wanted, rows)
    if broken:
        sys.exit("\n".join(broken) + ("" if arguments.update else "\nwhere the change is meant: call it with --update"))
    print(f"{len(rows)} plans, as in {TABLE.name} (cuDNN {version})")


if __name__ == "__main__":
    main()
