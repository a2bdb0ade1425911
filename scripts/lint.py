#!/usr/bin/env python3
"""What `make lint` runs: formatting, clang-tidy, and the checkers of scripts, configuration files, links and file modes.

    scripts/lint.py [--jobs N] [format] [shell] [python] [yaml] [links] [modes] [tidy]        default: all of them

Prints what breaks a rule and exits 1 if anything does. scripts/setup.sh lint brings the tools. To add a check, add a
function to CHECKS.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import lint_tidy

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".cc", ".h", ".cu", ".cuh", ".inc")
# Another version formats differently.
CLANG_FORMAT = "clang-format-14"


class Missing(Exception):
    """A tool that isn't installed."""


def tracked(*suffixes):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({path for path in listed.stdout.splitlines() if path.endswith(suffixes) and (ROOT / path).is_file()})


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"{name} is not installed; scripts/setup.sh lint brings it")
    return found


def output_of(command):
    """The output of a checker if it found a fault, else nothing."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.stdout.strip().splitlines() or [f"{command[0]} exited with {done.returncode}"] if done.returncode else []


def check_format(jobs):
    lines = output_of([tool(CLANG_FORMAT), "--dry-run", "-Werror", *tracked(*CPP)])
    files = list(dict.fromkeys(re.findall(r"^([^:\s]+):\d+:\d+: error: code should be clang-formatted", "\n".join(lines), re.MULTILINE)))
    return [f"{path}: not formatted; `make format` does it" for path in files] or lines


def check_shell(jobs):
    scripts = tracked(".sh") + [".ci/run"]
    return output_of([tool("shellcheck"), "--severity=style", *scripts])


def check_python(jobs):
    found = []
    for path in tracked(".py"):
        try:
            compile((ROOT / path).read_text(encoding="utf-8"), path, "exec")
        except SyntaxError as error:
            found.append(f"{path}:{error.lineno}: {error.msg}")
    # Debian's interpreter, for which pyflakes is a package.
    probe = subprocess.run(["/usr/bin/python3", "-c", "import pyflakes"], capture_output=True)
    if probe.returncode:
        raise Missing("pyflakes is not installed; scripts/setup.sh lint brings it")
    return found or [line for line in output_of(["/usr/bin/python3", "-m", "pyflakes", *tracked(".py")]) if not excused(line)]


def excused(finding):
    """Whether the line of Python that a finding is about says so itself, by `noqa`, which pyflakes does not read."""
    place = re.match(r"([^:]+\.py):(\d+):", finding)
    return bool(place) and "# noqa" in (ROOT / place[1]).read_text(encoding="utf-8").splitlines()[int(place[2]) - 1]


def check_yaml(jobs):
    rules = {"extends": "default",
             "rules": {"line-length": {"max": 140}, "document-start": "disable", "truthy": {"check-keys": False},
                       "braces": {"max-spaces-inside": 0}, "comments": {"min-spaces-from-content": 1}}}
    # Helm's templates are YAML only once they are rendered. tests/kubernetes checks the templates and a rendering.
    others = ("tests/fuzz/", "helm/zerofleet/templates/", "deploy/kubernetes/zerofleet.yaml")
    files = [path for path in tracked(".yaml", ".yml", ".cff") if not path.startswith(others)]
    return output_of([tool("yamllint"), "--strict", "--format=parsable", "-d", json.dumps(rules), *files])


def check_links(jobs):
    return output_of([sys.executable, "scripts/links.py"])


def check_modes(jobs):
    """A file is executable if and only if it names its interpreter."""
    found = []
    for path in tracked(""):
        file = ROOT / path
        if file.is_symlink():
            continue
        with open(file, "rb") as opened:
            is_script = opened.read(2) == b"#!"
        if is_script != os.access(file, os.X_OK):
            found.append(f"{path}: {'begins with #! and is not executable' if is_script else 'is executable and does not begin with #!'}")
    return found


def check_tidy(jobs):
    return lint_tidy.check(ROOT, tool("clang-tidy-14"), jobs)


CHECKS = {"format": check_format, "shell": check_shell, "python": check_python, "yaml": check_yaml, "links": check_links,
          "modes": check_modes, "tidy": check_tidy}


def self_test():
    """A file that breaks the format must be reported."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc", dir=ROOT) as file:
        file.write("int  main( ){return 0 ;}\n")
        file.flush()
        assert output_of([tool(CLANG_FORMAT), "--dry-run", "-Werror", file.name]), "clang-format let a bad file pass"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("checks", nargs="*", choices=[*CHECKS, []], metavar="CHECK")
    arguments = parser.parse_args()
    chosen = arguments.checks or list(CHECKS)
    broken = 0
    try:
        if "format" in chosen:
            self_test()
        for name in chosen:
            lines = CHECKS[name](arguments.jobs)
            broken += len(lines)
            print("\n".join(lines) if lines else f"lint: {name}: clean", flush=True)
    except Missing as missing:
        sys.exit(f"SKIPPED: lint: {missing}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
