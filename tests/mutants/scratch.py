"""A copy of the tree with builds of its own, in which run.py applies one mutant after another; the tree itself is not touched."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from entries import ROOT

# The toolkit that scripts/setup.sh cuda put into the tree itself.
NVCC = ROOT / "build" / "cuda" / "bin" / "nvcc"
CONFIGURE = {
    "cpu": ["-DZEROFLEET_CUDA=OFF"],
    "emulated": ["-DZEROFLEET_CUDA=EMULATED"] + ([f"-DZEROFLEET_NVCC={NVCC}"] if NVCC.exists() else []),
}
# A missing wait shows under some seeds of the emulated streams; `make test` tries few of them each time.
MORE_SEEDS = {"ZEROFLEET_STREAM_SEEDS": "40"}
# What a check exits with that has skipped some of its tests; a failure is never hidden by it.
SKIPPED_SOME = 77


class BuildError(Exception):
    """A build that failed; the text is the end of what it printed."""


class Outcome:
    """How one run of a test ended."""

    def __init__(self, code, output, seconds, hung):
        self.code, self.output, self.seconds, self.hung = code, output, seconds, hung

    @property
    def green(self):
        return self.code in (0, SKIPPED_SOME) and not self.hung

    @property
    def skipped(self):
        """Whether nothing ran: a check says so, and Python's unittest of each test."""
        of_unittest = re.search(r"^OK \(skipped=(\d+)\)$", self.output, re.MULTILINE)
        return "SKIPPED: " in self.output or bool(of_unittest and int(of_unittest[1]) == self.tests_run)

    @property
    def tests_run(self):
        """How many tests ran: of a GoogleTest binary or of Python's unittest; None where the output doesn't say."""
        counts = re.findall(r"^\[==========\] (\d+) tests? from .* ran\.|^Ran (\d+) tests? in", self.output, re.MULTILINE)
        return sum(int(a or b) for a, b in counts) if counts else None

    def summary(self):
        if self.hung:
            return f"hung for {self.seconds:.0f} s"
        failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", self.output, re.MULTILINE)
                                    + re.findall(r"^(?:FAIL|ERROR): (\w+)", self.output, re.MULTILINE)))
        if self.code < 0 or self.code >= 128 or not failed:
            end = f"ended by signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
            running = re.findall(r"^\[ RUN      \] (\S+)", self.output, re.MULTILINE)
            return end + (f" in {running[-1]}" if running else "")
        return ", ".join(failed[:2]) + (f" and {len(failed) - 2} more" if len(failed) > 2 else "")


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
    return sorted(path for path in listed.stdout.decode().split("\0") if path and (ROOT / path).is_file())


def copy_tree(destination):
    """Brings `destination` to the state of the tree; a file that is the same already keeps its time, so builds stay."""
    wanted = tracked_files()
    for path in wanted:
        source, copy = ROOT / path, destination / path
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    keep = {destination / path for path in wanted}
    for path in destination.rglob("*"):
        if path.is_file() and path not in keep and "__pycache__" not in path.parts:
            path.unlink()


class Scratch:
    """One copy and its builds, in which `edited` files will be mutated. Not for use by two threads."""

    def __init__(self, folder, jobs, edited):
        self.folder, self.jobs, self.edited = pathlib.Path(folder), jobs, edited
        self.tree = self.folder / "tree"
        self.tests = {}
        self.configured = {}
        self.original = None
        # Two copies compile the same files: paths below the folder are no part of what ccache compares.
        # The copy has no build folder, in which scripts/setup.sh cuda puts nvcc and its headers.
        path = f"{ROOT / 'build' / 'cuda' / 'bin'}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1"}
        copy_tree(self.tree)

    def run(self, command):
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        if done.returncode != 0:
            raise BuildError(done.stdout[-3000:])
        return done.stdout

    def configure(self, build):
        """Configures a build once; a failure is kept and raised again."""
        if build not in self.configured:
            try:
                # What stays as it is is compiled together; then a mutant costs one file's compilation.
                self.run(["cmake", "-S", self.tree, "-B", self.folder / build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Mutants",
                          "-DZEROFLEET_PRECOMPILE=ON", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=48",
                          f"-DZEROFLEET_APART={';'.join(self.edited)}", *CONFIGURE[build]])
                self.configured[build] = None
            except BuildError as error:
                self.configured[build] = error
        if self.configured[build]:
            raise self.configured[build]

    def build(self, build, targets):
        self.configure(build)
        self.run(["ninja", "-C", self.folder / build, "-j", str(self.jobs), *targets])
        # Asked for again after each build: ctest knows a test's command only once its program is there.
        if any("command" not in self.tests.get(build, {}).get(target, {}) for target in targets):
            listed = json.loads(self.run(["ctest", "--test-dir", self.folder / build, "--show-only=json-v1"]))
            self.tests[build] = {test["name"]: test for test in listed["tests"]}

    def test(self, mutant, timeout):
        """Runs the test of a mutant as ctest would, in a process group of its own that does not outlive it."""
        test = self.tests[mutant.build].get(mutant.test)
        if not test or "command" not in test:
            raise BuildError(f"the build has no test {mutant.test}")
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        command = list(test["command"])
        if mutant.filter:
            command.append(mutant.filter if command[-1].endswith(".py") else f"--gtest_filter={mutant.filter}")
        environment = {**os.environ, **MORE_SEEDS, **dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))}
        output = self.folder / "output.txt"
        started = time.monotonic()
        with open(output, "wb") as file:
            process = subprocess.Popen(command, env=environment, cwd=properties.get("WORKING_DIRECTORY", self.folder),
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                process.wait(timeout)
                hung = False
            except subprocess.TimeoutExpired:
                hung = True
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        return Outcome(process.returncode, output.read_text(errors="replace"), time.monotonic() - started, hung)

    def apply(self, mutant):
        path = self.tree / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.find) != 1:
            raise BuildError(f"find occurs {text.count(mutant.find)} times in {mutant.file}, must be once")
        self.original = path, text
        path.write_text(text.replace(mutant.find, mutant.replace), encoding="utf-8")

    def revert(self):
        """Takes back what apply did; the tree itself may have been edited since it was copied."""
        if self.original:
            self.original[0].write_text(self.original[1], encoding="utf-8")
        self.original = None
