"""Rules and dashboards: their metrics exist, alerts have runbooks, promtool and Grafana's own types take them, and panels tell runs
apart. chart_check.py runs these tests with its own.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import update

try:
    from grafana_foundation_sdk.cog import encoder, plugins
    from grafana_foundation_sdk.models import dashboard as grafana, units
except ImportError:
    grafana = None

ROOT = update.ROOT
STRICT = "--strict" in sys.argv
PROMTOOL = shutil.which("promtool") or str(ROOT / "build" / "tools" / "usr" / "bin" / "promtool")
RULES = ROOT / "deploy" / "prometheus" / "zerofleet.rules.yml"
METRIC = re.compile(r"\bzerofleet_(?:worker|coordinator)_[a-z_]+|\bzerofleet_build_info")


def differences(given, understood, path=""):
    """Where what was understood of a document is not what was given."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for key in given:
            yield from differences(given[key], understood[key], f"{path}.{key}") if key in understood else [f"{path}.{key}"]
    elif isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        for number, pair in enumerate(zip(given, understood)):
            yield from differences(*pair, f"{path}[{number}]")
    elif given != understood:
        yield path


class SkipsLoudly(unittest.TestCase):
    def missing(self, what):
        message = f"SKIPPED: {what}; scripts/setup.sh kubernetes installs it"
        if STRICT:
            self.fail(message)
        self.skipTest(message)


class Monitoring(SkipsLoudly):
    def test_every_metric_exists(self):
        known = set(METRIC.findall((ROOT / "docs" / "metrics.md").read_text()))
        recorded = set(re.findall(r"record: (\S+)", RULES.read_text()))
        used = 0
        for path in [RULES, *sorted((ROOT / "deploy" / "grafana").glob("*.json"))]:
            text = path.read_text()
            for metric in METRIC.findall(text):
                base = re.sub(r"_(bucket|sum|count)$", "", metric)
                self.assertTrue(metric in known or base in known, f"{path.name}: docs/metrics.md has no {metric}")
                used += 1
            self.assertLessEqual(set(re.findall(r"zerofleet:[a-z_]+", text)), recorded, path.name)
        self.assertGreater(used, 50)

    def test_every_alert_has_a_severity_and_a_runbook(self):
        alerts = re.findall(r"- alert: (\S+)(.*?)(?=\n      - alert:|\n  - name:|\Z)", RULES.read_text(), flags=re.S)
        self.assertGreaterEqual(len(alerts), 12)
        pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "runbooks").glob("*.md")}
        for alert, text in alerts:
            self.assertRegex(text, r"severity: (warning|critical)", alert)
            page = re.search(r"runbook_url: https://zerofleet\.example/runbooks/(\S+)\.html", text)
            self.assertIn(f"# {alert}\n", pages[page.group(1)])
            self.assertIn(f"({page.group(1)}.md)", pages["README"])

    def test_prometheus_takes_the_rules_and_they_fire(self):
        if not os.access(PROMTOOL, os.X_OK):
            self.missing("promtool is not there")
        folder = RULES.parent
        for command in (["check", "config", "prometheus.yml"], ["test", "rules", "zerofleet.rules_test.yml"]):
            ran = subprocess.run([PROMTOOL, *command], cwd=folder, capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_grafanas_schema_has_all_of_the_dashboards(self):
        """Read into Grafana's own types and written again, nothing is lost, and every unit is one of Grafana's."""
        if grafana is None:
            self.missing("grafana-foundation-sdk is not there")
        plugins.register_default_plugins()
        known = {value for name, value in vars(units).items() if not name.startswith("_")} | {"none"}
        # The Prometheus data source reads it, beyond the types of all annotations.
        of_prometheus = ".annotations.list[0].titleFormat"
        for path in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
            given = json.loads(path.read_text())
            understood = json.loads(encoder.JSONEncoder().encode(grafana.Dashboard.from_json(given)))
            self.assertEqual(list(differences(given, understood)), [of_prometheus], path.name)
            for panel in given["panels"]:
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], known, f"{path.name}: {panel['title']}")

    def test_dashboards_tell_runs_apart(self):
        """Each expression is of the chosen runs, no sum is over several of them, and a counter is shown by what it gains."""
        for path in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
            for panel in json.loads(path.read_text())["panels"]:
                for target in panel["targets"]:
                    where, expression = f"{path.name}: {panel['title']}", target["expr"]
                    self.assertRegex(expression, r"\$run\b", where)
                    self.assertRegex(target["legendFormat"], r"\{\{(run|exported_pod)\}\}", where)
                    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
                        self.assertLessEqual({"namespace", "run"}, set(labels.split(", ")), where)
                    self.assertFalse(re.search(r"(?<!rate\()(?<!increase\()\b\w+_total\b", expression), where)

    def test_every_expression_of_the_dashboards_parses(self):
        if not os.access(PROMTOOL, os.X_OK):
            self.missing("promtool is not there")
        expressions = []
        for path in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
            dashboard = json.loads(path.read_text())
            self.assertEqual({each["name"] for each in dashboard["templating"]["list"]}, {"datasource", "namespace", "run"})
            expressions += [each["expr"] for each in dashboard["annotations"]["list"]]
            expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        rules = [{"record": f"x:y{number}", "expr": re.sub(r"\$(namespace|run)", ".*", expression)}
                 for number, expression in enumerate(expressions)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # JSON is YAML
            json.dump({"groups": [{"name": "dashboards", "rules": rules}]}, file)
            file.flush()
            checked = subprocess.run([PROMTOOL, "check", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
