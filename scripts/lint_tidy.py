"""clang-tidy over the whole tree, for scripts/lint.py.

It reads the unity sources of a build of its own (build/lint), in which several files share one reading of the libraries' headers:
a fifth of the time that the files take one by one. A source that was clean is not read again until the source, a project header
that it includes, .clang-tidy or the tool has changed.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess

INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
DIAGNOSTIC = re.compile(r"^(?P<path>[^:\s]+):\d+:\d+: (warning|error): ", re.MULTILINE)


def prepare(root, build):
    """Configures the build and makes the generated headers; returns the compile commands of the project's own sources."""
    subprocess.run(["cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16", "-DCMAKE_CXX_COMPILER=clang++",
                    "-DCMAKE_BUILD_TYPE=Sanitize", "-DZEROFLEET_SANITIZE=address,undefined", "-DZEROFLEET_FUZZERS=ON"],
                   check=True, stdout=subprocess.DEVNULL)
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    generated = [line.split(":")[0] for line in listed.splitlines() if re.match(r"\S+\.pb\.(h|cc):", line)]
    subprocess.run(["ninja", "-C", build, *generated], check=True, stdout=subprocess.DEVNULL)
    commands = json.loads((build / "compile_commands.json").read_text())
    return [each for each in commands if ".pb.cc" not in each["file"] and not each["file"].endswith(".cu")]


class Digests:
    """The digest of a source and of every header of the project that it includes, directly or not."""

    def __init__(self, root, build):
        self.places = (root, build / "proto")
        self.includes, self.content = {}, {}

    def closure(self, path, seen):
        if path in seen:
            return
        seen.add(path)
        if path not in self.content:
            data = path.read_bytes()
            self.content[path] = hashlib.sha256(data).digest()
            named = (name.decode() for name in INCLUDE.findall(data))
            places = (*self.places, path.parent)
            self.includes[path] = [place / name for name in named for place in places if (place / name).is_file()]
        for included in self.includes[path]:
            self.closure(included, seen)

    def of(self, path, *more):
        seen = set()
        self.closure(pathlib.Path(path), seen)
        digest = hashlib.sha256()
        for each in sorted(seen):
            digest.update(str(each).encode() + self.content[each])
        for text in more:
            digest.update(text.encode())
        return digest.hexdigest()


def tidy(tool, root, build, command):
    """The complaints about one source, without those about libraries and generated code."""
    flags = [flag for flag in shlex.split(command["command"])[1:] if not flag.startswith("-fsanitize")]
    if "ccache" in command["command"].split()[0]:
        flags = flags[1:]
    done = subprocess.run([tool, "--quiet", command["file"], "--", *flags], cwd=command["directory"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace")
    blocks = re.split(r"(?m)^(?=\S+:\d+:\d+: (?:warning|error): )", done.stdout)
    lines = []
    for block in blocks:
        found = DIAGNOSTIC.match(block)
        if found and pathlib.Path(found["path"]).is_relative_to(root) and not pathlib.Path(found["path"]).is_relative_to(build):
            lines += block.replace(f"{root}/", "").rstrip().splitlines()
    if done.returncode and not lines and not DIAGNOSTIC.search(done.stdout):
        lines = [f"{command['file']}: clang-tidy failed: {done.stderr.strip()[-300:]}"]
    return lines


def check(root, tool, jobs):
    """clang-tidy's complaints about sources that changed since they were last clean; also prints them as they are found."""
    build = root / "build" / "lint"
    (build / "clean").mkdir(parents=True, exist_ok=True)
    commands = prepare(root, build)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    rules = (root / ".clang-tidy").read_text(encoding="utf-8")
    digests = Digests(root, build)
    waiting = {}
    for command in commands:
        digest = digests.of(command["file"], version, rules, command["command"])
        if not (build / "clean" / digest).exists():
            waiting[digest] = command
    print(f"lint: tidy: {len(waiting)} of {len(commands)} sources have changed", flush=True)
    lines = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(tidy, tool, root, build, command): digest for digest, command in waiting.items()}
        for done in concurrent.futures.as_completed(runs):
            found = [line for line in done.result() if line not in lines]  # a header's complaints come with each source that includes it
            lines += found
            if found:
                print("\n".join(found), flush=True)
            elif not done.result():
                (build / "clean" / runs[done]).touch()
    return [f"lint: tidy: {sum(map(bool, map(DIAGNOSTIC.match, lines)))} complaints, listed above"] if lines else []
