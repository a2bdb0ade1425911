#!/usr/bin/env python3
"""A real Prometheus server watches a real fleet with the committed rules. When a fault is done to the fleet, its alert fires; when the
fault is undone, the alert resolves. Every expression of the dashboards and of the recording rules has data.

Only durations and ages in the rules are changed: divided by SCALE; the rest of each expression is as in deploy/prometheus. Three alerts
are not staged: a memory plan with holes (FragmentationHigh), which no fault causes, a fleet whose ranks all stand still (NoProgress), and
one whose numbers are not the same when a step is done again (StepsDiffer).
"""
import contextlib
import errno
import json
import re
import signal
import subprocess
import sys
import threading
import time

import fleet
import prometheus

sys.path.insert(0, str(fleet.ROOT / "tests" / "chaos"))
import disk  # noqa: E402

RULES = fleet.ROOT / "deploy" / "prometheus" / "zerofleet.rules.yml"
DASHBOARDS = fleet.ROOT / "deploy" / "grafana"
SCALE = 300
# The divisor for an alert that counts events which take a loaded machine some time.
SCALE_OF = {"ZerofleetGenerationChurn": 40}
LEAST_WINDOW = 6  # seconds in which a rate or an increase has enough scrapes to be one
SECONDS = {"s": 1, "m": 60, "h": 3600}
NOT_STAGED = {"ZerofleetFragmentationHigh", "ZerofleetNoProgress", "ZerofleetStepsDiffer"}
PATIENCE = 180  # seconds to wait for anything on a loaded machine
WITHOUT_DATA = {"gpu.json"}  # there is no GPU
WORKERS, EVERY, CHURN = 2, 100, 5


def shortened(text):
    """The rules with their durations divided; a rule is recognised by its name."""
    rules = re.split(r"(?m)^(?=      - (?:alert|record): )", text)
    return "".join(shortened_rule(rule) for rule in rules)


def shortened_rule(rule):
    name = re.match(r" *- (?:alert|record): (\S+)", rule)
    scale = SCALE_OF.get(name.group(1), SCALE) if name else SCALE

    def seconds(match, least):
        return max(least, round(int(match.group("count")) * SECONDS[match.group("unit")] / scale))
    rule = re.sub(r"(?<=\[)(?P<count>\d+)(?P<unit>[smh])(?=\])", lambda match: f"{seconds(match, LEAST_WINDOW)}s", rule)
    rule = re.sub(r"(?<=for: )(?P<count>\d+)(?P<unit>[smh])$", lambda match: f"{seconds(match, 1)}s", rule, flags=re.M)
    # Numbers of three digits or more are ages; ratios are smaller.
    return re.sub(r"(?<=> )(?P<count>\d{3,})(?P<unit>)$", lambda match: str(max(LEAST_WINDOW, int(match.group("count")) // scale)), rule,
                  flags=re.M)


class AlertsFire(prometheus.PrometheusTest):
    def setUp(self):
        super().setUp()
        reason = disk.why_not()
        if reason:
            self.skipTest(f"SKIPPED: {reason}")
        self.disk = disk.BadDisk(self.work, 1)
        self.first = fleet.free_port(2 * (WORKERS + 2))
        self.fired, self.members, self.began = set(), [], time.monotonic()

    def environment(self):
        return {**super().environment(), **self.disk.environment}

    # --- two fleets, each with ports for its coordinator's metrics, its workers', and its coordinator

    def port(self, place, second=False):
        """The port of worker `place`; -1 is the port of the coordinator's metrics, WORKERS the coordinator's own."""
        return self.first + second * (WORKERS + 2) + place + 1

    def spawn(self, *arguments):
        # Nobody reads their output meanwhile.
        with open(self.work / "fleets.log", "ab") as log:
            return subprocess.Popen([fleet.BINARY, *map(str, arguments)], env=self.environment(), cwd=self.work, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def start_coordinator(self, second=False, **changes):
        name = "second" if second else "first"
        base = {"steps": 1_000_000, "parallel": {"workers": 1 if second else WORKERS},
                # Steps of some 10 ms, beside which little else takes time.
                "model": {"hidden": 48, "context": 64}, "restart": {"max_per_rank": 100},
                "evaluate": {"every_steps": 5 * EVERY, "batches": 1}, "data": {"validation": [str(self.held_file)]},
                "checkpoint": {"dir": str(self.work / name), "every_steps": EVERY, "keep": 3}}
        config = self.write_config(self.config(**fleet.merged(base, changes)), f"{name}.yaml")
        return self.spawn("coordinator", "--config", config, "--listen", f"127.0.0.1:{self.port(WORKERS, second)}", "--state-dir",
                          self.work / f"{name}-state", "--metrics-port", self.port(-1, second), "--metrics-linger", 600,
                          "--supervised", "--run-name", name, "--quiet")

    def start_worker(self, place, second=False):
        return self.spawn("worker", "--coordinator", f"127.0.0.1:{self.port(WORKERS, second)}", "--device", "cpu", "--threads", 1,
                          "--interface", "lo", "--supervised", "--quiet", "--metrics-port", self.port(place, second))

    # --- what Prometheus sees

    def value(self, metric, second=False):
        """The value of a metric of one fleet's coordinator; {} stands for its instance."""
        instance = f'instance="127.0.0.1:{self.port(-1, second)}"'
        return max((float(each["value"][1]) for each in self.query(metric.replace("{}", instance))), default=-1)

    def before(self, *alerts):
        """Before a fault: waits until these alerts are quiet, so that the next one to fire comes from this fault."""
        for alert in alerts:
            self.wait_for(f"{alert} to be quiet", lambda: alert not in self.firing(), PATIENCE)

    def fires(self, *alerts):
        for alert in alerts:
            self.wait_for(f"{alert} to fire", lambda: alert in self.firing(), PATIENCE)
            self.fired.add(alert)
            self.tell(f"{alert} fires")

    def resolves(self, *alerts):
        for alert in alerts:
            self.wait_for(f"{alert} to resolve", lambda: alert not in self.firing(), PATIENCE)
            self.tell(f"{alert} has resolved")

    def tell(self, what):
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", file=sys.stderr, flush=True)

    def every_expression_has_data(self):
        wanted = {name: "the rules" for name in re.findall(r"- record: (\S+)", RULES.read_text())}
        for path in sorted(DASHBOARDS.glob("*.json")):
            if path.name in WITHOUT_DATA:
                continue
            dashboard = json.loads(path.read_text())
            expressions = [each["expr"] for each in dashboard["annotations"]["list"]]
            expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
            wanted.update((re.sub(r"\$(namespace|run)", ".*", expression), path.name) for expression in expressions)
        self.assertGreater(len(wanted), 30)
        for expression, source in wanted.items():
            self.wait_for(f"data of {source}: {expression}", lambda: self.query(expression))

    # --- faults

    def kill(self, place):
        """A worker dies, another takes its place, and the fleet trains in another generation."""
        training = "zerofleet_coordinator_phase{phase='training', {}} * on (instance) zerofleet_coordinator_generation"
        self.wait_for("training", lambda: self.value(training) > 0, PATIENCE)
        before = self.value(training)
        self.members[place].kill()
        self.members[place].wait()
        self.members[place] = self.start_worker(place)
        self.wait_for("training in another generation", lambda: self.value(training) > before, PATIENCE)

    def damage_the_newest_checkpoint(self):
        for shard in fleet.latest_checkpoint(self.work / "first").glob("rank-*"):
            data = bytearray(shard.read_bytes())
            data[-1] ^= 1
            shard.write_bytes(data)

    @contextlib.contextmanager
    def held_up(self, process):
        """The process runs only a fraction of the time, in slices too short to take part in many collectives."""
        over = threading.Event()

        def hold():
            while not over.wait(0.002):
                process.send_signal(signal.SIGSTOP)
                over.wait(0.03)
                process.send_signal(signal.SIGCONT)
        thread = threading.Thread(target=hold)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # --- all of it

    def test_each_alert_fires_and_resolves(self):
        self.start_prometheus(range(self.first, self.first + 2 * (WORKERS + 2)), shortened(RULES.read_text()))
        coordinator = self.start_coordinator()
        self.fires("ZerofleetNotTraining")
        # The time that a coordinator waits for workers is no goodput.
        self.wait_for("a coordinator that waits", lambda: self.value(
            'count_over_time(zerofleet_coordinator_phase{phase="forming", {}}[5m])') >= 3)
        self.members = [self.start_worker(place) for place in range(WORKERS)]
        self.fires("ZerofleetGoodputLow")
        self.every_expression_has_data()
        self.resolves("ZerofleetGoodputLow", "ZerofleetNotTraining")
        self.wait_for("no alert of a fleet that trains", lambda: self.firing() == set(), PATIENCE)

        self.disk.fail(disk.ERROR, f"{self.work}/first/", disk.WRITE | disk.SYNC, error=errno.ENOSPC)
        self.fires("ZerofleetSaveFailed", "ZerofleetCheckpointStale")
        # While nothing is saved the newest checkpoint stays the newest, and the next load finds the damage.
        self.damage_the_newest_checkpoint()
        self.kill(0)
        self.fires("ZerofleetCheckpointVerifyFailed", "ZerofleetRankLost")
        self.disk.mend()
        self.resolves("ZerofleetSaveFailed", "ZerofleetCheckpointStale", "ZerofleetCheckpointVerifyFailed", "ZerofleetRankLost")

        self.before("ZerofleetStallHigh")
        self.disk.fail(disk.SLOW, f"{self.work}/first/", disk.SYNC, milliseconds=1000)
        self.fires("ZerofleetStallHigh")
        self.disk.mend()
        self.resolves("ZerofleetStallHigh")

        of_one_rank = ("ZerofleetStraggler", "ZerofleetBandwidthDrop", "ZerofleetThroughputDrop")
        self.before(*of_one_rank)
        with self.held_up(self.members[1]):
            self.fires(*of_one_rank)
        self.resolves(*of_one_rank)

        self.before("ZerofleetGenerationChurn")
        for number in range(CHURN):
            self.kill(number % WORKERS)
        self.fires("ZerofleetGenerationChurn")

        self.before("ZerofleetCoordinatorDown")
        coordinator.kill()
        coordinator.wait()
        self.fires("ZerofleetCoordinatorDown")
        self.start_coordinator()
        self.resolves("ZerofleetCoordinatorDown")

        self.before("ZerofleetLossNotFinite", "ZerofleetFleetFailed")
        diverging = self.start_coordinator(second=True, optimizer={"learning_rate": 1e30}, schedule={"warmup_steps": 0})
        self.wait_for("the other fleet's counters", lambda: self.value(
            "min(count_over_time(zerofleet_coordinator_divergences_total{{}}[5m]))", second=True) >= 2)
        self.members.append(self.start_worker(0, second=True))
        self.fires("ZerofleetLossNotFinite", "ZerofleetFleetFailed")
        diverging.terminate()
        diverging.wait()
        self.resolves("ZerofleetLossNotFinite", "ZerofleetFleetFailed", "ZerofleetGenerationChurn")
        self.assertEqual(self.fired, set(re.findall(r"- alert: (\S+)", RULES.read_text())) - NOT_STAGED)


if __name__ == "__main__":
    fleet.main()
