#!/usr/bin/env python3
"""Holds the tree to its layout: includes point only downward and never in cycles, each SDK stays in its place, each room in its
namespace, no name means two types, only a coordinator phase's own decisions write its state, files stay readable.

Run from anywhere: `tests/layering_check.py`; prints one line per violation and exits 1 if there is any. `--self-test` shows
each rule a file that breaks it. To add a room, put it at its height in ROOMS; to let a file use an SDK, widen its row in SDKS.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Lowest first. A file may include its own room and those before it.
ROOMS = ["base", "proto", "coordinator", "worker/device", "worker/collective", "worker/parallel", "worker/memory", "worker/model",
         "worker/optim", "worker/text", "worker/data", "worker/checkpoint", "worker/zero", "worker/inference", "worker/trainer",
         "services/common", "services/security", "services/rpc", "services/metrics", "services/storage", "services/session",
         "services/coordinator", "bench",
         "cli/config", "cli/report", "cli/launcher", "cli/planner", "cli/commands", "cli"]

# What an include of the SDK looks like, and the paths that may have it.
SDKS = [
    ("gRPC", r"grpc(pp|\+\+)?/|\.grpc\.pb\.h", r"services/"),
    ("Prometheus", r"prometheus/", r"services/"),
    ("Boost", r"boost/", r"services/metrics/metrics_exporter\.cc"),
    ("UCX", r"uc[pst]/", r"worker/collective/ucx"),
    ("oneDNN", r"(oneapi/)?dnnl", r"worker/device/cpu/"),
    ("Highway", r"hwy/", r"worker/device/cpu/|worker/(collective/sum|text/ascii_blocks(_test)?)\.cc"),
    ("CUDA", r"(cuda|cublas|cudnn)\w*\.h|(driver|vector)_types\.h", r"worker/device/cuda/|worker/collective/(emulation/)?nccl"),
    ("NCCL", r"nccl\.h", r"worker/collective/(emulation/)?nccl|worker/device/cuda/libraries/nccl"),
    ("yaml-cpp", r"yaml-cpp/", r"cli/config/"),
    ("JSON", r"nlohmann/", r"proto/json|worker/checkpoint/|services/|cli/|bench/"),
    ("simdjson", r"simdjson", r"proto/json_parse\.cc"),
    ("CLI11", r"CLI/", r"cli/commands/"),
    ("OpenSSL", r"openssl/", r"services/security/(tls|token)|worker/collective/peer_proof"),
    ("Oniguruma", r"onig", r"worker/text/(pattern|scanners)\.cc"),
    ("utf8proc", r"utf8proc", r"worker/text/unicode\.cc"),
    ("zlib and zstd", r"zlib\.h|zstd\.h", r"worker/data/text_(reader|tokens_test)\.cc"),
    ("nanobind", r"nanobind/", r"python/src/"),
    ("spdlog", r"spdlog/", r"services/|cli/|base/log"),
]

# Beginning of a path -> the namespace of its files.
NAMESPACES = {"base/": "zerofleet", "proto/": "zerofleet", "coordinator/": "zerofleet::coordinator",
              "worker/device/": "zerofleet::device", "worker/collective/": "zerofleet::collective",
              "worker/parallel/": "zerofleet::parallel", "worker/memory/": "zerofleet::memory",
              "worker/model/": "zerofleet::model", "worker/optim/": "zerofleet::optim", "worker/text/": "zerofleet::text",
              "worker/data/": "zerofleet::data",
              "worker/checkpoint/": "zerofleet::checkpoint", "worker/zero/": "zerofleet::zero",
              "worker/inference/": "zerofleet::inference", "worker/trainer/": "zerofleet::trainer",
              "services/": "zerofleet::services", "bench/": "zerofleet::bench", "cli/": "zerofleet::cli", "python/": "zerofleet::python"}

# Phase -> the decisions that may write its state (the structs of coordinator/fleet.h); others only read it.
PHASE_WRITERS = {"forming": "rendezvous|view|recovery|isolation|adoption|coordinator",
                 "adopting": "adoption|divergence|recovery",
                 "loading": "load_phase|view|save_stalls",
                 "training": "training|load_phase|straggler|divergence|liveness|recovery|adoption",
                 "saving": "commit|committed|failed_save|outlived_commit|load_phase|adoption|coordinator",
                 "hearing": "liveness|isolation|disagreement|recovery|view|adoption|coordinator",
                 "recovering": "recovery|divergence|disagreement|training|view|coordinator",
                 "finishing": "stop|ending|adoption"}
PHASE_WRITE = re.compile(
    r"(?:\+\+|--|std::exchange\(|std::move\()fleet_?\.(\w+)\.\w"
    r"|\bfleet_?\.(\w+)\.[\w.\->]*?(?:(?:\[[^\]]*\])? [+\-|]?= |\+\+|(?:\.|->)(?:reset|clear|insert|erase|push_back|"
    r"pop_back|pop_front|emplace|emplace_back|set_\w+|mutable_\w+|Clear|Add)\()")

MAX_LINES = 600
MARKERS = re.compile(r"\b(TODO|FIXME|XXX|HACK|unimplemented|not (yet )?implemented|placeholder|for now|dummy|stub(bed)?)\b",
                     re.IGNORECASE)
GRPC_STUB = re.compile(r"\bstub_?\b(?=->|\.|;|,| =|\(|\))|::Stub\b")  # gRPC's own word for a client object
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TYPE = re.compile(r"(?:class|struct|union|enum(?: class)?) (?:[A-Z_]+(?:\(.*?\))? )?(\w+)[^;():]*(?: : [^;]*)?\{")
CODE = (".cc", ".h", ".cu", ".cuh", ".inc", ".proto")
SCRIPTS = (".sh", ".py")


def room_of(path):
    """The room a path lies in: its longest match, or None for files outside all rooms (tests/, generated code)."""
    matches = [room for room in ROOMS if path.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def check_includes(path, text):
    room = room_of(path)
    for included in INCLUDE.findall(text):
        for sdk, pattern, allowed in SDKS:
            if re.match(pattern, included) or (sdk == "gRPC" and re.search(r"\.grpc\.pb\.h$", included)):
                if not re.match(allowed, path) and not path.startswith("tests/"):
                    yield f"includes <{included}>: {sdk} belongs in {allowed}"
        target = room_of(included)
        if room and target and ROOMS.index(target) > ROOMS.index(room):
            yield f"includes {included}: {target} is above {room}"


FORWARD_DECLARATIONS = re.compile(
    r"^namespace (zerofleet[\w:]*) \{\n(?:(?:class|struct|enum class) [^{}();]*;[^\n]*\n|//[^\n]*\n|\n)*\}", re.MULTILINE)


def check_namespace(path, text):
    """A file opens its room's namespace, and others only to declare types in advance."""
    room = room_of(path)
    namespace = next((space for prefix, space in NAMESPACES.items() if path.startswith(prefix)), None)
    if room is None or namespace is None:
        return
    for opened in re.findall(r"^namespace (zerofleet[\w:]*) \{", FORWARD_DECLARATIONS.sub("", text), re.MULTILINE):
        if opened != namespace and not opened.startswith(namespace + "::"):
            yield f"opens namespace {opened}; this room's is {namespace}"


def check_phases(path, text):
    """Only a phase's own decisions write its state."""
    decision = re.fullmatch(r"coordinator/(\w+)\.cc", path)
    if decision is None or path.endswith("_test.cc"):
        return
    for phase in sorted({found[1] or found[2] for found in PHASE_WRITE.finditer(text)} & PHASE_WRITERS.keys()):
        if not re.fullmatch(PHASE_WRITERS[phase], decision[1]):
            yield f"writes what belongs to {phase}: of {PHASE_WRITERS[phase]}"


def check_house(path, text):
    lines = text.splitlines()
    if path.endswith(CODE) and not (lines and lines[0].startswith("//")):
        yield "starts without a head comment that says what the file is"
    if path.endswith(SCRIPTS) and not (len(lines) > 1 and lines[0].startswith("#!") or text.startswith('"""')):
        yield "starts without #! or a head comment"
    if len(lines) > MAX_LINES:
        yield f"has {len(lines)} lines; {MAX_LINES} is the most: split it by idea"
    if path != "tests/layering_check.py":
        for number, line in enumerate(lines, 1):
            if MARKERS.search(GRPC_STUB.sub("", line)):
                yield f"line {number} has a marker word: {line.strip()[:80]}"


def definitions(text):
    """(qualified name, whether its opening brace follows) of each type at namespace scope that other files can name."""
    spaces = []
    for line in text.splitlines():
        if opened := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{", line):
            spaces.append(opened.group(1) or None)
        elif re.match(r"\}  // namespace", line) and spaces:
            spaces.pop()
        elif None not in spaces and (found := TYPE.match(line)):
            yield "::".join([*spaces, found.group(1)])


def check_types(read, paths):
    """No two types have the same name: the linker would silently pick one of them."""
    places = {}
    for path in paths:
        if path.endswith((".cc", ".h", ".cu", ".cuh")) and room_of(path):
            for name in definitions(read(path)):
                places.setdefault(name, []).append(path)
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{found[0]}: type {name} is defined again in {', '.join(found[1:])}"


def check_cycles(read, paths):
    """No two modules (x.h with x.cc) include each other: neither could be read, or moved, without the other."""
    includes = {}
    for path in paths:
        if path.endswith((".cc", ".h", ".cu", ".cuh")) and room_of(path) and not path.endswith(("_test.cc", "_fuzz.cc")):
            modules = {included.rpartition(".")[0] for included in INCLUDE.findall(read(path)) if room_of(included)}
            includes.setdefault(path.rpartition(".")[0], set()).update(modules)
    for module, included in sorted(includes.items()):
        for other in sorted(included):
            if module < other and module in includes.get(other, ()):
                yield f"{module}: it and {other} include each other"


def check_tests(paths):
    """Every x.cc of a room has a test in its folder: x_test.cc, or one that names what x.h declares. A file that emulates
    a library counts as a test itself."""
    for path in sorted(paths):
        if path.endswith((".cc", ".cu")) and "/emulation/" not in path and room_of(path) and not re.search(r"(_test|_fuzz|_main|main)\.cc$", path):
            if "/" in path and not any(p.startswith(path.rsplit("/", 1)[0] + "/") and p.endswith("_test.cc") for p in paths):
                yield f"{path}: there is no test in its folder"


def check_built(paths, read):
    """Every source is named in the CMakeLists.txt of its own folder or, with its path, of a folder above: a test that is
    not built cannot fail. `read` returns a path's text."""
    lists = {path.rpartition("/")[0]: read(path) for path in paths if path.endswith("CMakeLists.txt")}
    helpers = "".join(read(path) for path in paths if path.endswith(".cmake"))
    for path in sorted(paths):
        if not path.endswith((".cc", ".cu")):
            continue
        parts = path.split("/")
        texts = [("/".join(parts[depth:]), lists.get("/".join(parts[:depth]), "")) for depth in range(len(parts))]
        if not any(re.search(rf"(^|[\s/]){re.escape(name)}\b", text) for name, text in texts + [(path, helpers)]):
            yield f"{path}: no CMakeLists.txt builds it"


def tracked_files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if out.returncode == 0:
        return out.stdout.splitlines()
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
            if p.is_file() and not re.match(r"(build|demo-run|\.git)", str(p.relative_to(ROOT)))]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def check_tree():
    paths = [p for p in tracked_files() if (ROOT / p).is_file() and p.endswith(CODE + SCRIPTS + ("CMakeLists.txt", ".cmake"))]
    for path in sorted(paths):
        text = read(path)
        found = list(check_house(path, text))
        if path.endswith(CODE):
            found += [*check_includes(path, text), *check_namespace(path, text), *check_phases(path, text)]
        for breach in found:
            yield f"{path}: {breach}"
    yield from check_tests(paths)
    for check in (check_types, check_cycles):
        yield from check(read, paths)
    yield from check_built(paths, read)


def self_test():
    """Each rule must report its own violation, and let a good file pass."""
    good = '// Adds.\n#include "base/check.h"\n'
    forward = "namespace zerofleet::device {\nclass Stream;\n}  // namespace zerofleet::device\n"
    assert not list(check_namespace("worker/zero/a.h", forward))
    assert not list(check_includes("coordinator/view.cc", good)) and not list(check_house("coordinator/view.cc", good))
    assert not list(check_phases("coordinator/stop.cc", "if (fleet.loading.candidate == 0) fleet.finishing.since = now;\n"))
    broken = [
        (check_includes, "worker/zero/a.cc", '#include "services/session/session.h"\n'),
        (check_includes, "worker/model/a.cc", '#include "worker/zero/stage.h"\n'),
        (check_includes, "base/a.cc", '#include "proto/json.h"\n'),
        (check_includes, "worker/zero/a.cc", "#include <grpcpp/grpcpp.h>\n"),
        (check_includes, "worker/zero/a.cc", '#include "zerofleet/v1/worker.grpc.pb.h"\n'),
        (check_includes, "worker/collective/ring.cc", "#include <ucp/api/ucp.h>\n"),
        (check_includes, "worker/model/a.cc", '#include "hwy/highway.h"\n'),
        (check_includes, "worker/zero/a.cc", "#include <cuda_runtime.h>\n"),
        (check_includes, "worker/collective/ucx.cc", "#include <nccl.h>\n"),
        (check_includes, "cli/config/a.cc", '#include "cli/report/table.h"\n'),
        (check_namespace, "cli/config/a.cc", "namespace zerofleet {\n"),
        (check_namespace, "worker/zero/a.cc", "namespace zerofleet {\n"),
        (check_namespace, "worker/zero/a.cc", "namespace zerofleet::device {\nclass A {};\n}\n"),
        (check_phases, "coordinator/stop.cc", "fleet.loading.candidate = 0;\n"),
        (check_phases, "coordinator/hang.cc", "  ++fleet.training.last_evaluated_step;\n"),
        (check_phases, "coordinator/a.cc", "fleet.recovering.current->failed_ranks.insert(rank);\n"),
        (check_house, "base/a.cc", "#include <string>\n"),
        (check_house, "base/a.cc", "// a\n" * (MAX_LINES + 1)),
        (check_house, "base/a.cc", "// a\n// TO" + "DO: more\n"),
        (check_house, "services/common/a.cc", "// a\n// only a stub of it\n"),
    ]
    for rule, path, text in broken:
        assert list(rule(path, text)), f"{rule.__name__} missed {text[:60]!r} in {path}"
    lists = {"a/CMakeLists.txt": "zf_test(x SOURCES one_test.cc b/two_test.cc)", "a/b/CMakeLists.txt": ""}
    sources = ["a/one_test.cc", "a/b/two_test.cc", "a/b/one_test.cc"]
    assert [line.split(":")[0] for line in check_built([*lists, *sources], lists.get)] == ["a/b/one_test.cc"]
    self_test_types()
    assert list(check_tests(["base/a.cc"])) and not list(check_tests(["base/a.cc", "base/a_test.cc"]))


def self_test_types():
    type_of = "namespace {}{{\n{} Output {{\n}};\n}}  // namespace\n".format
    for second, clash in [("zerofleet ", True), ("zerofleet::cli ", False), ("", False)]:
        files = {"base/a.h": type_of("zerofleet ", "struct"), "cli/report/b.h": type_of(second, "class")}
        assert bool(list(check_types(files.get, files))) == clash, second
    files = {"base/a.h": '#include "base/b.h"\n', "base/b.cc": '#include "base/a.h"\n', "base/c.h": '#include "base/a.h"\n'}
    assert [line.split(":")[0] for line in check_cycles(files.get, files)] == ["base/a"]


def main():
    self_test()
    if "--self-test" in sys.argv:
        return
    breaches = list(check_tree())
    print("\n".join(breaches))
    if breaches:
        sys.exit(f"{len(breaches)} violations")
    print("layering: includes point downward, SDKs stay in place, files are in order")


if __name__ == "__main__":
    main()
