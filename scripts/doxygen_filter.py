#!/usr/bin/env python3
"""Turns the plain comments of a C++ file into Doxygen comments, for docs/site/Doxyfile: prints FILE with them.

The head comment becomes the file's, a comment before a declaration that declaration's, and one that follows on the same line
belongs to what it follows. Text that Doxygen would take for a command or a tag is escaped.
"""
import re
import sys

LINE = re.compile(r"^(\s*)//( ?)(.*)$")
TRAILING = re.compile(r"^(\s*[^\s/].*?[;,{)}])(\s+)// (.*)$")


def escaped(text):
    return re.sub(r"([\\@<>&$#%\"])", r"\\\1", text)


def marked(lines):
    """The lines with their comments marked; a comment inside a function's body is left alone by Doxygen itself."""
    result, in_head = [], bool(lines) and lines[0].startswith("//")
    for number, line in enumerate(lines):
        comment, trailing = LINE.match(line), TRAILING.match(line)
        if comment and re.match(r"\s*// (NOLINT|IWYU|clang-format)", line):
            result.append(line)
        elif comment:
            head = " \\file\n/// " if in_head and number == 0 else comment[2]
            result.append(f"{comment[1]}///{head}{escaped(comment[3])}")
        elif trailing and trailing[1].count('"') % 2 == 0:
            result.append(f"{trailing[1]}{trailing[2]}///< {escaped(trailing[3])}")
        else:
            result.append(line)
        in_head = in_head and bool(comment)
    return result


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(marked(file.read().splitlines())))


if __name__ == "__main__":
    main()
