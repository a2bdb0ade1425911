#!/usr/bin/env python3
"""Checks the compiled code of each GPU kernel against gpu_kernels.tsv: registers, stack, shared memory, occupancy, instructions.

    tests/gpu_kernels_check.py BUILD             reads the objects that BUILD has made of the kernels, and compares
    tests/gpu_kernels_check.py BUILD --update    writes the table again: for an intended change
    tests/gpu_kernels_check.py --self-test       checks that each rule sees its own breach; needs no compiler

It needs nvcc, and no GPU. The figures are those of one compiler and one disassembler; with others, or without either, it says so and
exits with 77. Besides matching the table, every kernel must state its largest block and have no stack and no access to local memory,
where spilled registers go; kernels in MOVES_VECTORS must have accesses of 128 bits, kernels in READS_VECTORS loads of 128 bits, kernels
in ADDS_ALONE no fused multiply-add.

A row stands for all instances of a kernel by element type: the most registers, bytes of stack and of static shared memory, the
least occupancy (in percent of a multiprocessor's warps; without the dynamic shared memory that some launches ask for), and the sums over
the instances of their instructions. A kernel whose code is the same in several files is counted once. Counts show how many multiplies and
adds were fused, not which.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_code_check  # noqa: E402

TABLE = pathlib.Path(__file__).resolve().parent / "gpu_kernels.tsv"
COLUMNS = ("kernel", "sm", "instances", "registers", "stack", "shared", "occupancy", "ldg128", "stg128", "local", "ffma")
WORST = {"registers": max, "stack": max, "shared": max, "occupancy": min}
SUMMED = ("ldg128", "stg128", "local", "ffma")

# Kernels that read and write whole vectors where the addresses allow, or read them; and kernels of the reductions, which only add.
MOVES_VECTORS = ("MapKernel TensorSource", "MapKernel SumSource", "MapKernel ContributionsSource", "MapKernel PaddedSource",
                 "MapKernel AssignedSource", "MapKernel GroupCopySource", "MapKernel GroupSumSource", "UpdateKernel AdamWRule",
                 "UpdateKernel SgdRule")
READS_VECTORS = ("SumSquaresKernel", "SumSquaresExactlyKernel")
# A cosine's reduction of large arguments keeps an array in local memory; weights are drawn once, before the first step. A sum without
# rounding is an array of limbs: one for 32 elements of a gradient, once a step.
MAY_USE_LOCAL_MEMORY = ("FillNormalKernel", "SumSquaresExactlyKernel", "SumExactScalarsKernel", "DecideExactStepKernel")
ADDS_ALONE = ("MapKernel SumSource", "MapKernel ContributionsSource", "StagedMapKernel ContributionsSource")

SHARED_BYTES = {80: 164 << 10, 90: 228 << 10}  # per multiprocessor
RESERVED_BYTES = 1 << 10                       # of shared memory, per block
MOST_WARPS, MOST_BLOCKS, PARTITIONS, PARTITION_REGISTERS = 64, 32, 4, 16384


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def occupancy(sm, registers, threads, shared):
    """Percent of a multiprocessor's warps that blocks of `threads` threads can fill."""
    warps = -(-threads // 32)
    of_registers = PARTITION_REGISTERS // (-(-max(registers, 1) // 8) * 8 * 32) * PARTITIONS
    of_shared = SHARED_BYTES[sm] // (-(-shared // 128) * 128 + RESERVED_BYTES)
    return min(min(MOST_WARPS, of_registers) // warps, of_shared, MOST_BLOCKS) * warps * 100 // MOST_WARPS


def short_name(demangled):
    """The kernel's name and, if its arguments name a struct, that struct, which distinguishes the ops."""
    text = re.sub(r"\(anonymous namespace\)::|zerofleet::device::cuda::|zerofleet::device::", "", demangled)
    text = text.removeprefix("void ")
    name = re.match(r"[\w:~]+", text).group(0)
    of = re.search(r"\b\w+(?:Source|Rule)\b|\bAttentionShape\b", text[len(name):]) if "<" in text else None
    return f"{name} {of.group(0)}" if of else name


# Attributes of a cubin's .nv.info sections, by (format, attribute). CUDA's format 4 is followed by two bytes of size and that many bytes.
SIZED = 4
MAX_THREADS, FRAME_SIZE, REGISTERS = 0x05, 0x11, 0x2f


def sections(cubin):
    """(name, type, offset, bytes, index of the section that it links to) of each section of an ELF file of 64 bits."""
    if cubin[:5] != b"\x7fELF\x02":
        sys.exit("machine code that is no ELF file: was it compressed?")
    start, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    heads = [struct.unpack_from("<IIQQQQI", cubin, start + index * size) for index in range(count)]
    text = heads[names][4]
    return [(string_at(cubin, text + name), kind, offset, length, link) for name, kind, _, _, offset, length, link in heads]


def string_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def attributes(data):
    """(attribute, the 32-bit words of its value) of an .nv.info section; attributes of a fixed size, which are not needed, get no words."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == SIZED:
            yield attribute, struct.unpack_from(f"<{size // 4}I", data, at)
            at += size
        else:
            yield attribute, ()


def resources(cubin, sm):
    """{mangled name: figures} of a cubin's kernels; `threads` is the largest block, or absent."""
    reserved = RESERVED_BYTES if sm >= 90 else 0  # the section then begins with them
    found = sections(cubin)
    symbols = next((section for section in found if section[0] == ".symtab"), None)
    if symbols is None:
        return {}
    text = found[symbols[4]][2]
    name_of = [string_at(cubin, text + struct.unpack_from("<I", cubin, at)[0]) for at in range(symbols[2], symbols[2] + symbols[3], 24)]
    kernels = {}
    for name, _, offset, length, _ in found:
        if name.startswith(".nv.info."):
            kernel = kernels.setdefault(name.removeprefix(".nv.info."), {"registers": 0, "stack": 0, "shared": 0})
            for attribute, words in attributes(cubin[offset:offset + length]):
                if attribute == MAX_THREADS:
                    kernel["threads"] = words[0] * words[1] * words[2]
    for name, _, offset, length, _ in found:
        shared_by = kernels.get(name.removeprefix(".nv.shared."))
        if name == ".nv.info":
            for attribute, words in attributes(cubin[offset:offset + length]):
                # Functions that kernels call are listed too.
                if attribute in (REGISTERS, FRAME_SIZE) and (kernel := kernels.get(name_of[words[0]])):
                    kernel["registers" if attribute == REGISTERS else "stack"] = words[1]
        elif name.startswith(".nv.shared.") and shared_by:
            shared_by["shared"] = length - reserved
    return kernels


INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")


def instructions(text):
    """{mangled name: counts of SUMMED} from the output of nvdisasm."""
    counts, counted = {}, None
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+(?:\.text\.(\w+))?", line):
            counted = counts.setdefault(section.group(1), dict.fromkeys(SUMMED, 0)) if section.group(1) else None
        elif counted is not None and (match := INSTRUCTION.match(line)):
            parts = match.group(1).split(".")
            counted["ldg128"] += parts[0] == "LDG" and "128" in parts
            counted["stg128"] += parts[0] == "STG" and "128" in parts
            counted["local"] += parts[0] in ("LDL", "STL")
            counted["ffma"] += parts[0] == "FFMA"
    return counts


def measure(object_file, nvdisasm, work):
    """[(demangled name, sm, figures)] of an object's kernels."""
    found = {}
    for entry in (entry for binary in gpu_code_check.fat_binaries(object_file.read_bytes()) for entry in binary):
        if entry.kind != gpu_code_check.MACHINE_CODE:
            continue
        cubin = work / f"{entry.architecture}.cubin"
        cubin.write_bytes(entry.data)
        listed = subprocess.run([nvdisasm, str(cubin)], capture_output=True, text=True, check=True).stdout
        counts = instructions(listed)
        for name, figures in resources(entry.data, entry.architecture).items():
            # Without a stated bound the largest possible block is assumed, and broken_rules reports it.
            threads = figures.pop("threads", None)
            share = occupancy(entry.architecture, figures["registers"], threads or 1024, figures["shared"])
            found[name, entry.architecture] = {**figures, **counts[name], "occupancy": share, "unbounded": threads is None}
    names = sorted({name for name, _ in found})
    demangled = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    plain = dict(zip(names, demangled))
    return [(plain[name], sm, figures) for (name, sm), figures in found.items()]


def rows_of(kernels):
    """The table: {(kernel, sm): {column: value}} of [(demangled name, sm, figures)]."""
    groups = collections.defaultdict(list)
    for (demangled, sm), figures in {(name, sm): figures for name, sm, figures in kernels}.items():
        groups[short_name(demangled), sm].append(figures)
    return {key: {"instances": len(group), **{column: worst(each[column] for each in group) for column, worst in WORST.items()},
                  **{column: sum(each[column] for each in group) for column in (*SUMMED, "unbounded")}}
            for key, group in groups.items()}


def broken_rules(rows, whole=True):
    """Breaches of the rules that hold whatever the table says; `whole`: no kernel is left out."""
    for (kernel, sm), row in sorted(rows.items()):
        where = f"{kernel}, sm_{sm}"
        if (row["local"] or row["stack"]) and kernel not in MAY_USE_LOCAL_MEMORY:
            yield f"{where}: a stack of {row['stack']} bytes, {row['local']} accesses to local memory; must be none"
        if row["unbounded"]:
            yield f"{where}: no __launch_bounds__: a launch can fail for lack of registers"
        if kernel in MOVES_VECTORS and (row["ldg128"] == 0 or row["stg128"] == 0):
            yield f"{where}: {row['ldg128']} loads and {row['stg128']} stores of 128 bits; must have both"
        if kernel in READS_VECTORS and row["ldg128"] == 0:
            yield f"{where}: no loads of 128 bits; must have some"
        if kernel in ADDS_ALONE and row["ffma"]:
            yield f"{where}: {row['ffma']} fused multiply-adds; must add alone"
    for kernel in sorted({*MOVES_VECTORS, *READS_VECTORS, *ADDS_ALONE, *MAY_USE_LOCAL_MEMORY} - {kernel for kernel, _ in rows}) if whole else ():
        yield f"{kernel}: there is no such kernel"


def differences(wanted, got):
    for key in sorted(wanted.keys() | got.keys()):
        where = f"{key[0]}, sm_{key[1]}"
        if key not in got:
            yield f"{where}: in the table, and not in the build"
        elif key not in wanted:
            yield f"{where}: in the build, and not in the table"
        else:
            changed = [f"{column} {wanted[key][column]} -> {got[key][column]}" for column in COLUMNS[2:]
                       if wanted[key][column] != got[key][column]]
            if changed:
                yield f"{where}: {', '.join(changed)}"


def write_table(tools, rows):
    lines = [f"# {tools}", "\t".join(COLUMNS)]
    lines += ["\t".join(map(str, (*key, *(row[column] for column in COLUMNS[2:])))) for key, row in sorted(rows.items())]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_table():
    """(the tools with which the table was made, its rows)."""
    tools, _, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = {}
    for line in lines:
        kernel, *figures = line.split("\t")
        sm, *figures = map(int, figures)
        rows[kernel, sm] = dict(zip(COLUMNS[2:], figures))
    return tools.removeprefix("# "), rows


def release(tool):
    printed = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", printed).group(1)


def object_of(command):
    words = shlex.split(command["command"])
    return pathlib.Path(command["directory"]) / words[words.index("-o") + 1]


def compile_commands(build):
    listed = build / "compile_commands.json"
    commands = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    return [command for command in commands if command["file"].endswith(".cu") and "-x cu" in command["command"]]


LISTED = """
\t.section\t.nv.info._Z3OnePf,"",@"SHT_CUDA_INFO"
\t.sectionflags\t@""
\t//----- nvinfo : EIATTR_REGCOUNT
        /*0000*/ \t.word\t0x00000007
\t.section\t.text._Z3OnePf,"ax",@progbits
\t.sectionflags\t@"SHF_BARRIERS=1"
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/              @!P0 STG.E.128.STRONG.SM desc[UR4][R2.64], R4 ;
        /*0020*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0030*/               @P1 FFMA R4, R5, R6, R7 ;
        /*0040*/                   STL.64 [R1], R4 ;
\t.section\t.nv.constant0._Z3OnePf,"a",@progbits
        /*0000*/                   FFMA ;
"""


def small_cubin():
    """An ELF file with the sections that resources() reads, for a kernel `_Z3OnePf` that calls a function `_Z3Twov`."""
    info = b"".join(struct.pack("<BBHII", SIZED, attribute, 8, symbol, value)
                    for attribute, symbol, value in ((REGISTERS, 1, 46), (FRAME_SIZE, 1, 16), (REGISTERS, 2, 99), (FRAME_SIZE, 2, 99)))
    of_kernel = struct.pack("<BBH", 3, 0x1b, 255) + struct.pack("<BBHIII", SIZED, MAX_THREADS, 12, 64, 2, 1)
    strings = b"\0_Z3OnePf\0_Z3Twov\0"
    symbols = b"".join(struct.pack("<I20x", at) for at in (0, 1, 10))
    held = [("", b"", 0), (".strtab", strings, 0), (".symtab", symbols, 1), (".nv.info", info, 2), (".nv.info._Z3OnePf", of_kernel, 2),
            (".nv.shared._Z3OnePf", bytes(1280), 0), (".nv.shared.reserved.0", bytes(64), 0)]
    names = b"".join(name.encode() + b"\0" for name, _, _ in held) + b".shstrtab\0"
    held.append((".shstrtab", names, 0))
    body, heads, at_name = b"", b"", 0
    for name, data, link in held:
        heads += struct.pack("<IIQQQQIIQQ", at_name, 1, 0, 0, 64 + len(body), len(data), link, 0, 1, 0)
        at_name += len(name) + 1
        body += data
    return (b"\x7fELF\x02".ljust(40, b"\0") + struct.pack("<QIHHHHHH", 64 + len(body), 0, 64, 0, 0, 64, len(held), len(held) - 1)
            + body + heads)


def self_test():
    for sm, shared in ((80, 1280), (90, 256)):
        found = resources(small_cubin(), sm)
        assert found == {"_Z3OnePf": {"registers": 46, "stack": 16, "shared": shared, "threads": 128}}, found
    assert instructions(LISTED) == {"_Z3OnePf": {"ldg128": 1, "stg128": 1, "local": 1, "ffma": 1}}, instructions(LISTED)
    # Bounded by warps, by registers (128 leave four warps per partition), and by shared memory.
    assert occupancy(80, 32, 256, 0) == 100
    assert occupancy(80, 128, 256, 0) == 25
    assert occupancy(80, 129, 1024, 0) == 0, "a block that does not fit"
    assert occupancy(80, 32, 256, 40 << 10) == 50
    assert occupancy(80, 32, 128, 16 << 10) == 56, "with what each block's reservation takes"
    assert occupancy(90, 32, 256, 40 << 10) == 62
    assert short_name("void zerofleet::device::cuda::MapKernel<4, zerofleet::device::cuda::(anonymous namespace)::SumSource<float>, float>"
                      "(int)") == "MapKernel SumSource"
    good = {"instances": 1, "registers": 32, "stack": 0, "shared": 0, "occupancy": 100, "ldg128": 1, "stg128": 1, "local": 0,
            "ffma": 0, "unbounded": 0}
    kernel = "MapKernel SumSource"
    assert list(broken_rules({(kernel, 80): good}, whole=False)) == []
    for breach in ("stack", "local", "ffma", "unbounded"):
        assert list(broken_rules({(kernel, 80): {**good, breach: 1}}, whole=False)), f"{breach} was not seen"
    for breach in ("ldg128", "stg128"):
        assert list(broken_rules({(kernel, 80): {**good, breach: 0}}, whole=False)), f"{breach} was not seen"
    assert list(broken_rules({(READS_VECTORS[0], 80): {**good, "stg128": 0}}, whole=False)) == []
    assert list(broken_rules({(READS_VECTORS[0], 80): {**good, "ldg128": 0}}, whole=False)), "narrow loads were not seen"
    assert list(broken_rules({(kernel, 80): good})), "kernels that are gone were not seen"
    for column in COLUMNS[2:]:
        assert list(differences({(kernel, 80): good}, {(kernel, 80): {**good, column: 7}})), f"a change of {column} was not seen"
    assert list(differences({}, {(kernel, 80): good})) and list(differences({(kernel, 80): good}, {})), "a row too many was not seen"
    # The committed table keeps the rules too.
    _, rows = read_table()
    assert list(broken_rules({key: {**row, "unbounded": 0} for key, row in rows.items()})) == []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.build is None:
        parser.error("a folder of a build is needed")
    commands = compile_commands(arguments.build)
    if not commands:
        skip(f"{arguments.build} builds no GPU code: scripts/setup.sh cuda installs what that takes")
    objects = [object_of(command) for command in commands]
    for missing in (path for path in objects if not path.exists()):
        sys.exit(f"{missing} is not built yet")
    nvcc = next(word for word in shlex.split(commands[0]["command"]) if word.endswith("nvcc"))
    beside = pathlib.Path(nvcc).with_name("nvdisasm")
    nvdisasm = str(beside) if beside.exists() else shutil.which("nvdisasm")
    if nvdisasm is None:
        skip(f"there is no nvdisasm beside {nvcc}: scripts/setup.sh cuda installs one")
    tools = f"nvcc {release(nvcc)}, nvdisasm {release(nvdisasm)}"
    wanted_tools, wanted = read_table() if not arguments.update else (tools, {})
    if tools != wanted_tools:
        skip(f"{TABLE.name} is of {wanted_tools}, and this is {tools}")
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def one(numbered):
            place = pathlib.Path(work) / str(numbered[0])
            place.mkdir()
            return measure(numbered[1], nvdisasm, place)
        rows = rows_of([kernel for kernels in pool.map(one, enumerate(objects)) for kernel in kernels])
    broken = list(broken_rules(rows))
    if arguments.update:
        write_table(tools, rows)
    else:
        broken += differences(wanted, rows)
    if broken:
        sys.exit("\n".join(broken) + ("" if arguments.update else
                                      f"\nwhere the change is meant: tests/gpu_kernels_check.py {arguments.build} --update"))
    print(f"{sum(row['instances'] for row in rows.values())} kernels in {len(rows)} rows, as in {TABLE.name} ({tools})")


if __name__ == "__main__":
    main()
