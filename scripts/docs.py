#!/usr/bin/env python3
"""Builds the documentation site: the tree's Markdown pages with MkDocs, and the API reference with Doxygen.

    scripts/docs.py [OUTPUT]        default: build/docs/site; open its index.html

A broken link, or any other warning of either tool, ends it with exit code 1. Nothing is fetched. The pages are the repository's
own, unchanged: the README.md of a folder is that folder's page, and a link to a source file leads to a copy of it.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import links

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "docs"
PAGES = WORK / "pages"
# In the order of the navigation: a section's name, and a pattern of its pages. Each page goes to the first section that matches.
# Pages joined by | keep that order in the section; all others are sorted by path.
SECTIONS = [
    ("First steps", r"docs/(tutorial|coming_from|limits)\.md"),
    ("Training", r"docs/(command_line|configuration|data|planning|offload|tensor_parallelism|gpu)\.md"),
    ("Running a fleet", r"docs/(recovery|containers|kubernetes|networking|security|metrics|logs)\.md"),
    ("How it works", r"docs/(architecture|zero|checkpoint_format|reliability)\.md"),
    ("More", r"docs/[^/]+\.md"),
    ("Runbooks", r"docs/runbooks/.*\.md"),
    ("Decisions", r"docs/decisions/.*\.md"),
    ("Project", r"(CONTRIBUTING|CHANGELOG|SECURITY)\.md"),
    ("Results", r"bench/results/.*\.md"),
    ("Folders", r".*README\.md"),
]


def title_of(path):
    heading = re.search(r"^# (.+)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].strip("`") if heading else path


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True,
                            check=True)
    return [path for path in sorted(set(listed.stdout.splitlines())) if (ROOT / path).is_file()]


def copy_page(path, pages):
    """Copies a page; a link to anything else leads to a copy of it, a link to a folder to its page or to a list of its files."""
    text = (ROOT / path).read_text(encoding="utf-8")
    folder = (ROOT / path).parent
    for link in dict.fromkeys(links.links(text)):
        target = link.partition("#")[0]
        if not target or target.endswith(".md"):
            continue
        source = (folder / target).resolve()
        place = source.relative_to(ROOT)
        if source.is_dir() and f"{place}/README.md" in pages:
            text = text.replace(f"]({link})", f"]({target.rstrip('/')}/README.md)")
        elif source.is_dir():
            listing = PAGES / place / "README.md"
            listing.parent.mkdir(parents=True, exist_ok=True)
            for each in tracked(f"{place}/"):
                (PAGES / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / each, PAGES / each)
            listing.write_text(f"# {place}\n\n" + "".join(
                f"- [{pathlib.Path(each).relative_to(place)}]({pathlib.Path(each).relative_to(place)})\n"
                for each in tracked(f"{place}/")), encoding="utf-8")
            text = text.replace(f"]({link})", f"]({target.rstrip('/')}/README.md)")
        else:
            (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, PAGES / place)
    (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
    (PAGES / path).write_text(text, encoding="utf-8")


def navigation(pages):
    nav, left = [{"Start": "README.md"}], [path for path in pages if path != "README.md"]
    for name, pattern in SECTIONS:
        chosen = [path for path in left if re.fullmatch(pattern, path)]
        left = [path for path in left if path not in chosen]
        if order := re.search(r"\((\w+(?:\|\w+)+)\)", pattern):
            chosen.sort(key=lambda path, names=order[1].split("|"): names.index(pathlib.Path(path).stem))
        if chosen:
            nav.append({name: [{title_of(path): path} for path in chosen]})
    nav.append({"API reference": "api.md"})
    if left:
        sys.exit(f"docs.py: no section of the site takes {left[0]}; see SECTIONS")
    return nav


def build_reference():
    doxyfile = (ROOT / "docs" / "site" / "Doxyfile").read_text(encoding="utf-8")
    headers = [path for path in tracked("*.h", "*.cuh") if "/emulation/" not in path]
    doxyfile += f"OUTPUT_DIRECTORY = {PAGES}\nINPUT = {' '.join(headers)}\n"
    subprocess.run(["doxygen", "-"], input=doxyfile, text=True, cwd=ROOT, check=True)
    return len(headers)


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else WORK / "site").resolve()
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    pages = [path for path in tracked("*.md") if not path.startswith(".")]
    for path in pages:
        copy_page(path, pages)
    headers = build_reference()
    (PAGES / "api.md").write_text(
        "# API reference\n\nEvery header of the project, with its comments: [open the reference](reference/index.html).\n\n"
        "- [Files](reference/files.html)\n- [Classes](reference/annotated.html)\n", encoding="utf-8")
    # JSON is YAML.
    config = WORK / "mkdocs.json"
    config.write_text(json.dumps({"INHERIT": str(ROOT / "docs" / "site" / "mkdocs.yml"), "docs_dir": str(PAGES),
                                  "site_dir": str(output), "nav": navigation(pages)}), encoding="utf-8")
    built = subprocess.run(["mkdocs", "build", "--clean", "--config-file", config], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True)
    if built.returncode:
        sys.exit("".join(line for line in built.stdout.splitlines(keepends=True) if not line.startswith("INFO")) or "docs.py: mkdocs failed")
    print(f"docs: {len(pages)} pages and {headers} headers: {output}/index.html")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"docs.py: {error.cmd[0]} failed")
