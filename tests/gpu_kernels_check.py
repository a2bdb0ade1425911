#!/usr/bin/env python3
"""What the compiler made of each GPU kernel is what gpu_kernels.tsv says: registers, spills, shared memory, occupancy, instructions.

    tests/gpu_kernels_check.py BUILD             compiles the kernels with the flags that BUILD has for them, and compares
    tests/gpu_kernels_check.py BUILD --update    writes the table anew: for a change that is meant
    tests/gpu_kernels_check.py BUILD --only F    of the files whose path ends with F alone: for trying something out
    tests/gpu_kernels_check.py --self-test       that each rule sees its own breach; needs no compiler

It needs nvcc, and no GPU. The figures are those of one compiler and one disassembler; with others, or without either, it says so and
exits with 77. Beside the table, every kernel states its largest block and has no spills and no local memory; those of MOVES_VECTORS have
accesses of 128 bits, those of ADDS_ALONE no fused multiply-add.

A row stands for all instances of a kernel by element type: the most registers, bytes of stack, of spills and of static shared memory, the
least occupancy (in percent of a multiprocessor's warps; without the dynamic shared memory that some launches ask for), and the sums over
the instances of their instructions. A kernel whose code is the same in several files is counted once. A row whose instances are in several
files differs under --only. Counts tell that multiplies and adds were fused, not that one pair was and another no longer is.
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
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_code_check  # noqa: E402

TABLE = pathlib.Path(__file__).resolve().parent / "gpu_kernels.tsv"
COLUMNS = ("kernel", "sm", "instances", "registers", "stack", "spills", "shared", "occupancy", "ldg128", "stg128", "local", "ffma")
WORST = {"registers": max, "stack": max, "spills": max, "shared": max, "occupancy": min}
SUMMED = ("ldg128", "stg128", "local", "ffma")

# Reads and writes whole vectors where the addresses allow; what a kernel of the reductions adds, it only adds.
MOVES_VECTORS = ("MapKernel TensorSource", "MapKernel SumSource", "MapKernel ContributionsSource", "UpdateKernel AdamWRule",
                 "UpdateKernel SgdRule")
# A cosine's reduction of large arguments keeps an array there. Weights are drawn once, before the first step. A sum without rounding is an
# array of limbs: one for 32 elements of a gradient, once a step.
MAY_USE_LOCAL_MEMORY = ("FillNormalKernel", "SumSquaresExactlyKernel", "SumExactScalarsKernel", "DecideExactStepKernel")
ADDS_ALONE = ("MapKernel SumSource", "MapKernel ContributionsSource", "StagedMapKernel ContributionsSource")

SHARED_BYTES = {80: 164 << 10, 90: 228 << 10}  # of a multiprocessor
RESERVED_BYTES = 1 << 10                       # of them, per block
MOST_WARPS, MOST_BLOCKS, PARTITIONS, PARTITION_REGISTERS = 64, 32, 4, 16384


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def occupancy(sm, registers, threads, shared):
    """Percent of a multiprocessor's warps that blocks of so many threads can keep there."""
    warps = -(-threads // 32)
    of_registers = PARTITION_REGISTERS // (-(-max(registers, 1) // 8) * 8 * 32) * PARTITIONS
    of_shared = SHARED_BYTES[sm] // (-(-shared // 128) * 128 + RESERVED_BYTES)
    return min(min(MOST_WARPS, of_registers) // warps, of_shared, MOST_BLOCKS) * warps * 100 // MOST_WARPS


def short_name(demangled):
    """The kernel's name, and the struct that its arguments name, if there is one: what tells the ops apart."""
    text = re.sub(r"\(anonymous namespace\)::|zerofleet::device::cuda::|zerofleet::device::", "", demangled)
    text = text.removeprefix("void ")
    name = re.match(r"[\w:~]+", text).group(0)
    of = re.search(r"\b\w+(?:Source|Rule)\b|\bAttentionShape\b", text[len(name):]) if "<" in text else None
    return f"{name} {of.group(0)}" if of else name


def resources(printed):
    """{(mangled name, sm): figures} of what ptxas printed."""
    found, key = {}, None
    for line in printed.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", line):
            key = (entry.group(1), int(entry.group(2)))
            found[key] = {"registers": 0, "stack": 0, "spills": 0, "shared": 0}
        elif key and (memory := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)):
            # Functions that the kernel calls are listed too.
            found[key]["stack"] += int(memory.group(1))
            found[key]["spills"] += int(memory.group(2)) + int(memory.group(3))
        elif key and (used := re.search(r"Used (\d+) registers", line)):
            found[key]["registers"] = int(used.group(1))
            shared = re.search(r"(\d+) bytes smem", line)
            found[key]["shared"] = int(shared.group(1)) if shared else 0
    return found


INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")


def instructions(text):
    """{mangled name: (threads of the largest block, counts of SUMMED)} of what nvdisasm printed."""
    threads, counts, section, words = {}, {}, "", None
    for line in text.splitlines():
        if head := re.match(r"\s*\.section\s+\.(text|nv\.info)\.(\w+)", line):
            section, name = head.groups()
            words = None
            if section == "text":
                counts[name] = dict.fromkeys(SUMMED, 0)
        elif re.match(r"\s*\.section\s", line):
            section = ""
        elif section == "nv.info" and "EIATTR_" in line:
            words = [] if "EIATTR_MAX_THREADS" in line else None
        elif section == "nv.info" and words is not None and (word := re.search(r"\.word\s+0x([0-9a-f]+)", line)):
            words.append(int(word.group(1), 16))
            if len(words) == 3:
                threads[name] = words[0] * words[1] * words[2]
        elif section == "text" and (match := INSTRUCTION.match(line)):
            parts = match.group(1).split(".")
            counts[name]["ldg128"] += parts[0] == "LDG" and "128" in parts
            counts[name]["stg128"] += parts[0] == "STG" and "128" in parts
            counts[name]["local"] += parts[0] in ("LDL", "STL")
            counts[name]["ffma"] += parts[0] == "FFMA"
    return {name: (threads.get(name), count) for name, count in counts.items()}


def measure(command, cwd, nvdisasm, work):
    """[(demangled name, sm, figures)] of a file's kernels."""
    made = work / "kernels.o"
    # Without line numbers, which make no instruction and most of what there is to read.
    words = [word for word in shlex.split(command) if word != "-lineinfo"]
    words[words.index("-o") + 1] = str(made)
    compiled = subprocess.run([*words, "-Xptxas", "-v", "--no-compress"], cwd=cwd, capture_output=True, text=True)
    if compiled.returncode != 0:
        sys.exit(compiled.stdout + compiled.stderr)
    found = resources(compiled.stdout + compiled.stderr)
    for binary in gpu_code_check.fat_binaries(made.read_bytes()):
        for entry in binary:
            if entry.kind != gpu_code_check.MACHINE_CODE:
                continue
            cubin = work / f"{entry.architecture}.cubin"
            cubin.write_bytes(entry.data)
            listed = subprocess.run([nvdisasm, str(cubin)], capture_output=True, text=True, check=True).stdout
            for name, (threads, counts) in instructions(listed).items():
                figures = found.get((name, entry.architecture))
                if figures is None:
                    continue  # not a kernel
                # Without a bound the figure is that of the largest block there can be, and broken_rules says so.
                share = occupancy(entry.architecture, figures["registers"], threads or 1024, figures["shared"])
                figures.update(counts, occupancy=share, unbounded=threads is None)
    names = sorted({name for name, _ in found})
    demangled = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    plain = dict(zip(names, demangled))
    return [(plain[name], sm, figures) for (name, sm), figures in found.items()]


def rows_of(kernels):
    """The table: {(kernel, sm): {column: value}} of [(demangled name, sm, figures)]."""
    groups = collections.defaultdict(list)
    for (demangled, sm), figures in {(name, sm): figures for name, sm, figures in kernels}.items():
        if "occupancy" not in figures:
            sys.exit(f"{demangled}: no machine code for sm_{sm} was found")
        groups[short_name(demangled), sm].append(figures)
    return {key: {"instances": len(group), **{column: worst(each[column] for each in group) for column, worst in WORST.items()},
                  **{column: sum(each[column] for each in group) for column in (*SUMMED, "unbounded")}}
            for key, group in groups.items()}


def broken_rules(rows, whole=True):
    """What holds whatever the table says; `whole` where no kernel is left out."""
    for (kernel, sm), row in sorted(rows.items()):
        where = f"{kernel}, sm_{sm}"
        if row["spills"] or ((row["local"] or row["stack"]) and kernel not in MAY_USE_LOCAL_MEMORY):
            yield (f"{where}: {row['spills']} bytes of spills, a stack of {row['stack']} bytes, {row['local']} accesses to local memory; "
                   "must be none")
        if row["unbounded"]:
            yield f"{where}: no __launch_bounds__: a launch can fail for lack of registers"
        if kernel in MOVES_VECTORS and (row["ldg128"] == 0 or row["stg128"] == 0):
            yield f"{where}: {row['ldg128']} loads and {row['stg128']} stores of 128 bits; must have both"
        if kernel in ADDS_ALONE and row["ffma"]:
            yield f"{where}: {row['ffma']} fused multiply-adds; must add alone"
    for kernel in sorted({*MOVES_VECTORS, *ADDS_ALONE, *MAY_USE_LOCAL_MEMORY} - {kernel for kernel, _ in rows}) if whole else ():
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
    """(the tools that it is of, its rows)."""
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


def compile_commands(build):
    listed = build / "compile_commands.json"
    commands = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    return [command for command in commands if command["file"].endswith(".cu") and "-x cu" in command["command"]]


PRINTED = """
ptxas info    : Compiling entry function '_Z3OnePf' for 'sm_80'
ptxas info    : Function properties for _Z3OnePf
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 46 registers, used 1 barriers, 256 bytes smem, 360 bytes cmem[0]
ptxas info    : Compiling entry function '_Z3OnePf' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers
"""
LISTED = """
\t.section\t.nv.info._Z3OnePf,"",@"SHT_CUDA_INFO"
\t.sectionflags\t@""
\t//----- nvinfo : EIATTR_REGCOUNT
        /*0000*/ \t.word\t0x00000007
\t//----- nvinfo : EIATTR_MAX_THREADS
        /*00ac*/ \t.word\t0x00000040
        /*00b0*/ \t.word\t0x00000002
        /*00b4*/ \t.word\t0x00000001
\t.section\t.text._Z3OnePf,"ax",@progbits
\t.sectionflags\t@"SHF_BARRIERS=1"
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/              @!P0 STG.E.128.STRONG.SM desc[UR4][R2.64], R4 ;
        /*0020*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0030*/               @P1 FFMA R4, R5, R6, R7 ;
        /*0040*/                   STL.64 [R1], R4 ;
"""


def self_test():
    found = resources(PRINTED)
    assert found["_Z3OnePf", 80] == {"registers": 46, "stack": 16, "spills": 12, "shared": 256}, found
    assert found["_Z3OnePf", 90] == {"registers": 40, "stack": 0, "spills": 0, "shared": 0}, found
    assert instructions(LISTED) == {"_Z3OnePf": (128, {"ldg128": 1, "stg128": 1, "local": 1, "ffma": 1})}, instructions(LISTED)
    # By warps, by registers (128 leave four warps a partition), by shared memory.
    assert occupancy(80, 32, 256, 0) == 100
    assert occupancy(80, 128, 256, 0) == 25
    assert occupancy(80, 129, 1024, 0) == 0, "a block that does not fit"
    assert occupancy(80, 32, 256, 40 << 10) == 50
    assert occupancy(80, 32, 128, 16 << 10) == 56, "with what each block's reservation takes"
    assert occupancy(90, 32, 256, 40 << 10) == 62
    assert short_name("void zerofleet::device::cuda::MapKernel<4, zerofleet::device::cuda::(anonymous namespace)::SumSource<float>, float>"
                      "(int)") == "MapKernel SumSource"
    good = {"instances": 1, "registers": 32, "stack": 0, "spills": 0, "shared": 0, "occupancy": 100, "ldg128": 1, "stg128": 1, "local": 0,
            "ffma": 0, "unbounded": 0}
    kernel = "MapKernel SumSource"
    assert list(broken_rules({(kernel, 80): good}, whole=False)) == []
    for breach in ("stack", "spills", "local", "ffma", "unbounded"):
        assert list(broken_rules({(kernel, 80): {**good, breach: 1}}, whole=False)), f"{breach} was not seen"
    for breach in ("ldg128", "stg128"):
        assert list(broken_rules({(kernel, 80): {**good, breach: 0}}, whole=False)), f"{breach} was not seen"
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
    parser.add_argument("--only", help="the end of the path of the files to look at")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.build is None or (arguments.update and arguments.only):
        parser.error("a folder of a build is needed, and a table is written of all files or not at all")
    commands = compile_commands(arguments.build)
    if not commands:
        skip(f"{arguments.build} builds no GPU code: scripts/setup.sh cuda installs what that takes")
    commands = [command for command in commands if command["file"].endswith(arguments.only or "")]
    if not commands:
        sys.exit(f"no file of GPU code ends with {arguments.only}")
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
            return measure(numbered[1]["command"], numbered[1]["directory"], nvdisasm, place)
        rows = rows_of([kernel for kernels in pool.map(one, enumerate(commands)) for kernel in kernels])
    broken = list(broken_rules(rows, whole=not arguments.only))
    if arguments.update:
        write_table(tools, rows)
    else:
        broken += differences({key: row for key, row in wanted.items() if key in rows or not arguments.only}, rows)
    if broken:
        sys.exit("\n".join(broken) + ("" if arguments.update else
                                      f"\nwhere the change is meant: tests/gpu_kernels_check.py {arguments.build} --update"))
    print(f"{sum(row['instances'] for row in rows.values())} kernels in {len(rows)} rows, as in {TABLE.name} ({tools})")


if __name__ == "__main__":
    main()
