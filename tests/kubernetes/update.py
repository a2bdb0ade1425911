#!/usr/bin/env python3
"""Writes what is made from the chart and for it; chart_check.py says whether it is current.

    tests/kubernetes/update.py        needs Helm and helm-docs: scripts/setup.sh kubernetes

helm/zerofleet/values.schema.json    the part `config`, from docs/config.schema.json
helm/zerofleet/README.md             README.md.gotmpl, and the values with their comments in values.yaml
deploy/kubernetes/zerofleet.yaml     the chart as it comes, for people without Helm
"""
import json
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "helm" / "zerofleet"
MANIFEST = ROOT / "deploy" / "kubernetes" / "zerofleet.yaml"
README = CHART / "README.md"
SCHEMA = CHART / "values.schema.json"


def tool(name):
    """The program's path; none if it is not there."""
    built = ROOT / "build" / "kubernetes" / "bin" / name
    return str(built) if built.exists() else shutil.which(name)


def helm():
    return tool("helm")


def render(*arguments, release="run"):
    return subprocess.run([helm(), "template", release, str(CHART), "--namespace", "default", *arguments], capture_output=True,
                          text=True, check=False)


def values():
    """(path, default, comment) of each value in values.yaml that has a `# --` comment, and of those that lack one."""
    rows, path, comment = [], [], None
    for line in (CHART / "values.yaml").read_text().splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = stripped[5:]
        elif stripped.startswith("#") and not stripped.startswith("# @"):
            comment = f"{comment} {stripped[2:]}" if comment else None
        elif stripped and not stripped.startswith("#"):
            depth = (len(line) - len(line.lstrip())) // 2
            key, default = re.fullmatch(r"([A-Za-z_]+):\s*(.*)", stripped).groups()
            path = path[:depth] + [key]
            inside_a_value = any(".".join(path).startswith(row[0] + ".") for row in rows)
            if comment or (default and not inside_a_value):
                rows.append((".".join(path), default, comment))
            comment = None
    return rows


def manifest():
    rendered = render()
    if rendered.returncode != 0:
        raise SystemExit(rendered.stderr)
    # A hook is Helm's; `kubectl apply` would run it as a pod.
    documents = [each for each in re.split(r"^---\n", rendered.stdout, flags=re.M) if each.strip() and "helm.sh/hook:" not in each]
    head = ("# The chart as it comes, rendered as the release `run` by tests/kubernetes/update.py: edit the chart instead, or what this\n"
            "# gives by the Kustomize base beside it.\n")
    return head + "".join("---\n" + each.rstrip() + "\n" for each in documents)


def schema():
    document = json.loads(SCHEMA.read_text())
    config = json.loads((ROOT / "docs" / "config.schema.json").read_text())
    del config["$schema"]
    document["properties"]["config"] = config
    return json.dumps(document, indent=2) + "\n"


def readme():
    return subprocess.run([tool("helm-docs"), "--chart-search-root", str(CHART), "--sort-values-order", "file", "--dry-run",
                           "--log-level", "error"], capture_output=True, text=True, check=True).stdout


def main():
    SCHEMA.write_text(schema())
    for name in ("helm", "helm-docs"):
        if tool(name) is None:
            raise SystemExit(f"update.py: no {name}; scripts/setup.sh kubernetes builds it")
    README.write_text(readme())
    MANIFEST.write_text(manifest())


if __name__ == "__main__":
    main()
