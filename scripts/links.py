#!/usr/bin/env python3
"""Checks that every relative link of the tree's Markdown pages leads to a file, and every anchor to a heading.

    scripts/links.py [ROOT]        the tracked *.md of the repository, or every *.md below ROOT

Prints one line per broken link and exits 1 if there is any. Links to other hosts are not followed.
"""
import pathlib
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
OTHER_HOST = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def without_code(text):
    """The text with code blocks and code spans blanked, since they contain no links."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", text)


def anchors(text):
    """The anchors of a page's headings, as hosts of Markdown generate them."""
    found = set()
    for heading in HEADING.findall(re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda match: match.group(1) or "", heading).lower()
        found.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain)))
    return found


def links(text):
    plain = without_code(text)
    return [link for link in LINK.findall(plain) + REFERENCE.findall(plain) if not OTHER_HOST.match(link)]


def broken(root, page, text):
    """The broken links of one page, each with the reason."""
    for link in links(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(root)}: {link}: there is no such file"
        elif not target.is_relative_to(root):
            yield f"{page.relative_to(root)}: {link}: leads out of the repository"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{page.relative_to(root)}: {link}: the page has no such heading"


def pages(root):
    if root != REPOSITORY:
        return sorted(root.rglob("*.md"))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True, text=True,
                            check=True)
    return [root / path for path in sorted(set(listed.stdout.splitlines())) if (root / path).is_file()]


def self_test():
    text = ("# A `b` page\nsee [x](y.md), [two\nlines](#a-b-page) and `[no](link)`, [out](https://a.b)\n"
            "```\n# not a heading\n[no](z.md)\n```\n[r]: r.md\n")
    assert links(text) == ["y.md", "#a-b-page", "r.md"], links(text)
    assert anchors(text) == {"a-b-page"}, anchors(text)
    page = REPOSITORY / "page.md"
    assert len(list(broken(REPOSITORY, page, "[x](no/such/file.md)"))) == 1
    assert len(list(broken(REPOSITORY, page, "[x](README.md#no-such-heading) [y](../..)"))) == 2
    assert not list(broken(REPOSITORY, page, "[x](README.md) [y](docs)"))


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY
    found = pages(root)
    breaches = [line for page in found for line in broken(root, page, page.read_text(encoding="utf-8"))]
    print("\n".join(breaches) if breaches else f"links: {len(found)} pages, every relative link leads somewhere")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
