#!/usr/bin/env python3
"""Checks the pages' claims that the program itself can confirm: the commands, flags and configuration keys that they name exist, the
words of other tools mean what docs/coming_from.md says, and every place that names the release names the same one.

ZEROFLEET names the binary (default: build/zerofleet).
"""
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
# `model.safetensors` is a file, not a key of the section `model`.
FILES = (".md", ".cc", ".h", ".py", ".sh", ".json", ".yaml", ".safetensors", ".proto", ".jsonl", ".env", ".svg", ".txt")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def pages():
    """The pages for users; decisions and results are records of their day."""
    return [path.relative_to(ROOT) for path in
            [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "runbooks").glob("*.md")),
             ROOT / "deploy" / "README.md", *sorted((ROOT / "examples").glob("*.yaml"))]]


@functools.lru_cache(maxsize=None)
def help_of(*command):
    """The help of a command; empty if there is none of that name."""
    run = subprocess.run([BINARY, *command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return run.stdout if run.returncode == 0 else ""


@functools.lru_cache(maxsize=None)
def flags_of(*command):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", help_of(*command)))


def command_lines(text):
    """The command lines that begin with zerofleet: in code blocks, with their continuations, and in code spans."""
    for _, block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:until |[A-Z_]+=\S+ |\$\()*((?:\S*/)?zerofleet [a-z].*)", line.strip()):
                yield found[1]
    for span in SPAN.findall(FENCE.sub("", text)):
        if re.match(r"(\S*/)?zerofleet [a-z]", span):
            yield span


def words_of(line):
    """A command line as words, up to the first operator of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = []
    try:
        for word in lexer:
            if word and set(word) <= set(";&|<>()"):
                break
            words.append(word)
    except ValueError:  # an apostrophe in prose
        pass
    return words[1:]


def wrong_with(line):
    """The part of a command line that the program does not know; empty if it knows all of it."""
    words = words_of(line)
    command = []
    while len(command) < len(words) and re.fullmatch(r"[a-z][a-z-]*", words[len(command)]) and help_of(*words[:len(command) + 1]):
        command.append(words[len(command)])
    if not command:
        return f"no command {words[0] if words else ''}"
    unknown = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
    unknown = [flag for flag in unknown if flag not in flags_of(*command)]
    unknown += [word.partition("=")[0] for flag, word in zip(words, words[1:])
                if flag == "--set" and re.match(r"[a-z]", word) and word.partition("=")[0] not in keys()]
    return f"{' '.join(command)} has no {', '.join(unknown)}" if unknown else ""


@functools.lru_cache(maxsize=None)
def keys():
    """Every section and key of the schema, by dotted path."""
    found = set()

    def walk(schema, prefix):
        for name, each in schema.get("properties", {}).items():
            found.add(prefix + name)
            walk(each, prefix + name + ".")
    walk(json.loads(subprocess.run([BINARY, "config-schema"], capture_output=True, text=True, check=True).stdout), "")
    return found


def keys_named(text):
    """The words in code spans that look like a section's key."""
    sections = {key.partition(".")[0] for key in keys() if "." in key}
    for span in SPAN.findall(text):
        match = re.match(r"([a-z_]+)\.([a-z0-9_.]*[a-z0-9_])(?=$|[: =])", span)
        if match and match[1] in sections and not match[0].endswith(FILES):
            yield match[0]


class Claims(unittest.TestCase):
    def test_commands_and_flags(self):
        checked = 0
        for page in pages():
            text = read(page)
            if page.suffix == ".yaml":
                text = "```\n" + "".join(line.lstrip("# ") + "\n" for line in text.splitlines() if line.startswith("#")) + "```\n"
            for line in command_lines(text):
                checked += 1
                self.assertEqual(wrong_with(line), "", f"{page}: {line}")
        self.assertGreater(checked, 60)

    def test_examples_of_the_help(self):
        for name in re.findall(r"^  ([a-z][a-z-]*)  ", help_of(), re.MULTILINE):
            example = help_of(name).partition("Example")[2]
            for line in re.findall(r"^ +(zerofleet .*)$", example, re.MULTILINE):
                self.assertEqual(wrong_with(line), "", f"zerofleet {name} --help: {line}")

    def test_every_command_is_on_the_page_of_commands(self):
        page = read("docs/command_line.md")
        names = re.findall(r"^  ([a-z][a-z-]*)  ", help_of(), re.MULTILINE)
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertIn(f"`{name}`", page)

    def test_configuration_keys(self):
        checked = 0
        for page in pages():
            for key in keys_named(read(page)):
                checked += 1
                self.assertTrue(key in keys(), f"{page} names the key {key}, which there is not")
        self.assertGreater(checked, 200)

    def test_words_of_other_tools(self):
        rows = re.findall(r'^    \{"(\w+)", "([\w.]*)", (\w+|".*?")\},$', read("cli/config/key_words.cc"), re.MULTILINE)
        meant = {word: key for word, key, _ in rows}
        page, checked = read("docs/coming_from.md"), 0
        for word, key in re.findall(r"^\| `([a-z_0-9]+)` \| (?:`([a-z_.]+)`)? ?\|", page, re.MULTILINE):
            checked += 1
            if word in {key.rpartition(".")[2] for key in keys()}:  # the key has that name here too
                self.assertEqual(key.rpartition(".")[2], word)
                continue
            self.assertIn(word, meant, "docs/coming_from.md has a word that the errors do not know")
            self.assertEqual(key, meant[word], f"docs/coming_from.md: {word}")
        self.assertGreater(checked, 40)

    def test_one_version(self):
        version = re.search(r"project\(zerofleet VERSION (\S+)", read("CMakeLists.txt"))[1]
        named = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(named.startswith(f"zerofleet {version} ("), named)
        for path, pattern in (("CITATION.cff", r"^version: (.+)$"), ("docker/Dockerfile", r"^ARG VERSION=(.+)$"),
                              ("helm/zerofleet/Chart.yaml", r"^appVersion: (.+)$"),
                              ("deploy/kubernetes/zerofleet.yaml", r"image: zerofleet:(.+)$"),
                              ("deploy/kubernetes/zerofleet.yaml", r'app.kubernetes.io/version: "(.+)"$'),
                              ("deploy/kubeflow/runtime.yaml", r"image: zerofleet:(.+)$")):
            self.assertEqual(set(re.findall(pattern, read(path), re.MULTILINE)), {version}, path)
        for page in pages():
            self.assertLessEqual(set(re.findall(r"(?:zerofleet:|, tag: )(\d+\.\d+\.\d+)", read(page))), {version}, page)
        released = re.findall(r"^## (\d+\.\d+\.\d+)", read("CHANGELOG.md"), re.MULTILINE)
        self.assertEqual(released[:1], [version], "the newest release of CHANGELOG.md")


if __name__ == "__main__":
    unittest.main(verbosity=2)
