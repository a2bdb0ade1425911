#!/usr/bin/env python3
"""Holds comments and pages to plain words: pages in docs/ wrap at 100 columns, comments begin with what they are about, and
phrases that readers stumbled over do not come back.

Run from anywhere: `tests/prose_check.py`; prints one line per violation and exits 1 if there is any. `--self-test` shows each rule
a text that breaks it. To keep a phrase out, add it to PHRASES with what to write instead.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
CODE = (".cc", ".h", ".cu", ".cuh", ".proto")

# A pattern in a line of a comment or a page, and what to write instead.
PHRASES = [
    (r"^\s*(//|#) Of ", "begin with what the comment is about"),
    (r"\bwhose it is\b", "its owner"),
    (r"\bthe more the\b.*\bthe more\b", "say how one follows from the other"),
    (r"\bwhich it spoils\b", "is overwritten"),
    (r"\bdumm(y|ies)\b", "what it stands for"),
    (r"\b(simply|obviously|of course|trivial(ly)?)\b", "leave it out"),
    (r"\butili[sz]e\b", "use"),
    (r"\bin order to\b", "to"),
]
COMMENT = re.compile(r"//.*")


def lines_that_wrap(text):
    """(number, line) of a page's prose: without tables, code, headings, images, HTML and link definitions."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not re.match(r"\s{4,}|\s*(\||#|<|!\[|\[[^]]+\]:)", line):
            yield number, line


def can_break(line):
    """Whether a space outside code spans and links lies within the width, behind the line's indentation or list marker."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda found: "x" * len(found.group()), line)
    start = len(plain) - len(plain.lstrip()) + len(re.match(r"([-*]|\d+\.)? ?", plain.lstrip()).group())
    return " " in plain[start:WIDTH + 1].strip()


def check_width(path, text):
    if not path.startswith("docs/") or not path.endswith(".md"):
        return
    for number, line in lines_that_wrap(text):
        if len(line) > WIDTH and can_break(line):
            yield f"line {number} has {len(line)} columns; pages wrap at {WIDTH}"


def check_phrases(path, text):
    if not path.endswith((*CODE, ".md")) or path.startswith("docs/decisions/") or path == "CHANGELOG.md":
        return
    for number, line in enumerate(text.splitlines(), 1):
        shown = line if path.endswith(".md") else "".join(re.findall(r"^\s*//.*|//.*", line))
        for pattern, better in PHRASES:
            if found := re.search(pattern, shown, re.IGNORECASE if not pattern.startswith("^") else 0):
                yield f"line {number}: \"{found.group().strip()}\": {better}"


RULES = (check_width, check_phrases)


def self_test():
    for rule, path, text in [
            (check_width, "docs/a.md", "word " * 30 + "\n"),
            (check_phrases, "base/a.h", "  // Of ranks that are lost.\n"),
            (check_phrases, "docs/a.md", "Do this in order to win.\n")]:
        assert list(rule(path, text)), f"{rule.__name__} missed {text[:40]!r}"
    for rule, path, text in [
            (check_width, "docs/a.md", "```\n" + "word " * 30 + "\n```\n| " + "word " * 30 + "|\n`" + "word " * 30 + "`\n"),
            (check_phrases, "base/a.h", "// Off. A list of Of.\n")]:
        assert not list(rule(path, text)), f"{rule.__name__} found something in {text[:40]!r}"


def main():
    self_test()
    if "--self-test" in sys.argv:
        return
    paths = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    violations = 0
    for path in filter(None, paths):
        if not path.endswith((*CODE, ".md")) or not (ROOT / path).is_file():
            continue
        text = (ROOT / path).read_text()
        for rule in RULES:
            for violation in rule(path, text):
                print(f"{path}: {violation}")
                violations += 1
    if violations:
        sys.exit(f"{violations} violations")
    print("prose: pages wrap, and no phrase of the list is used")


if __name__ == "__main__":
    main()
