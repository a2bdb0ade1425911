#!/usr/bin/env python3
"""Every line that a coordinator and its workers log, in a run that loses a worker and its coordinator, is one object of
docs/log.schema.json; all processes of a view have one trace id, and the next view has another.
"""
import json
import re
import signal
import subprocess
import time

import fleet

SCHEMA = json.loads((fleet.ROOT / "docs" / "log.schema.json").read_text())
TYPES = {"string": str, "integer": int, "null": type(None)}


def fault(line):
    """Why the line violates the schema, or None. Implements the parts of JSON Schema that the file uses."""
    fields = json.loads(line)
    if list(fields) != SCHEMA["required"]:
        return f"fields {list(fields)}"
    for name, value in fields.items():
        rule = SCHEMA["properties"][name]
        types = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        if type(value) not in [TYPES[each] for each in types]:
            return f"{name} is {value!r}"
        if value is None:
            continue
        if "pattern" in rule and not re.fullmatch(rule["pattern"], value):
            return f"{name} is {value!r}"
        if value not in rule.get("enum", [value]) or isinstance(value, int) and value < rule["minimum"]:
            return f"{name} is {value!r}"
        if len(str(value)) < rule.get("minLength", 0):
            return f"{name} is empty"
    return None


class LogsKeepTheirSchema(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{fleet.free_port()}"
        self.report = self.work / "report.jsonl"

    def launch(self, role, *arguments):
        """A process whose stderr goes to a file: a log at this level would fill a pipe that nobody reads."""
        log = self.work / f"{role}-{time.time_ns()}.log"
        with open(log, "wb") as err:
            process = subprocess.Popen([fleet.BINARY, role, *map(str, arguments), "--supervised", "--quiet", "--log-level", "debug"],
                                       env=self.environment(), cwd=self.work, text=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=err)
        process.log = log
        self.addCleanup(process.stdout.close)
        return process

    def coordinator(self):
        process = self.launch("coordinator", "--config", self.work / "config.yaml", "--listen", self.address, "--state-dir",
                              self.work / "state", "--report", self.report)
        self.assertTrue(process.stdout.readline().startswith("listening on "))
        return process

    def worker(self):
        return self.launch("worker", "--coordinator", self.address, "--device", "cpu", "--threads", 1, "--interface", "lo")

    def wait_for(self, holds):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not holds(fleet.Run(0, "", "", self.report)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)  # polls a real process at intervals

    def logged(self, process, send=None):
        """The log lines of a process after its end; other text on stderr is left out."""
        if send:
            process.send_signal(send)
        process.communicate(timeout=fleet.RUN_SECONDS)
        lines = [line for line in process.log.read_text().splitlines() if line.startswith("{")]
        for line in lines:
            self.assertIsNone(fault(line), line)
        return [json.loads(line) for line in lines]

    def test_every_line_of_a_run_is_of_the_schema(self):
        self.write_config(self.config(steps=1500, checkpoint={"every_steps": 5}))
        coordinator, workers = self.coordinator(), [self.worker(), self.worker()]
        self.wait_for(lambda run: 6 in run.column("loss"))
        lost = self.logged(workers[1], signal.SIGKILL)
        workers[1] = self.worker()
        self.wait_for(lambda run: run.of("recovery"))
        before = self.logged(coordinator, signal.SIGKILL)
        coordinator = self.coordinator()
        survivors = [self.logged(worker) for worker in workers]
        after = self.logged(coordinator, signal.SIGTERM)

        def ids(lines, generation=None):
            return {line["trace_id"] for line in lines if generation is None or line["generation"] == generation} - {None}

        self.assertEqual(len(ids(before)), 2, "one for each generation that this coordinator began")
        first, second = ids(lost), ids(survivors[1])
        self.assertEqual(len(first | second), 2)
        self.assertEqual(first | second, ids(before))
        self.assertEqual(ids(survivors[0]), first | second)
        self.assertEqual(ids(after), second, "the next coordinator takes over the id of the view that it adopts")
        self.assertIsNone(before[0]["trace_id"])
        for lines in survivors:
            self.assertTrue(all(line["rank"] is None or line["trace_id"] for line in lines))


if __name__ == "__main__":
    fleet.main()
