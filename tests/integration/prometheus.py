"""A real Prometheus server for tests, which scrapes and evaluates rules once a second."""
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import fleet

TOOLS = fleet.ROOT / "build" / "tools" / "usr" / "bin"


def tool(name):
    return shutil.which(name) or (str(TOOLS / name) if os.access(TOOLS / name, os.X_OK) else None)


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


class PrometheusTest(fleet.FleetTest):
    """Skipped where no server is installed."""

    def setUp(self):
        super().setUp()
        if not tool("prometheus") or not tool("promtool"):
            self.skipTest("SKIPPED: no prometheus server here; scripts/setup.sh test brings one")
        port = fleet.free_port()
        self.listen, self.server = f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"

    def start_prometheus(self, ports, rules=""):
        """Starts a server that scrapes these ports of this machine; `rules` is the text of a rules file."""
        (self.work / "rules.yml").write_text(rules)
        (self.work / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "zerofleet", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}]}))
        with open(self.work / "prometheus.log", "w", encoding="utf-8") as log:
            subprocess.Popen([tool("prometheus"), f"--config.file={self.work}/prometheus.yml",
                              f"--storage.tsdb.path={self.work}/tsdb", f"--web.listen-address={self.listen}"],
                             env=self.environment(), stdout=log, stderr=log)  # ended by end_leftovers

    def query(self, expression):
        answer = json.loads(get(f"{self.server}/api/v1/query?query={urllib.parse.quote(expression)}"))
        return answer["data"]["result"]

    def firing(self):
        """The names of the alerts that fire now."""
        alerts = json.loads(get(f"{self.server}/api/v1/alerts"))["data"]["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def wait_for(self, what, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.2)
        self.fail(f"not within {seconds} s: {what}")
