"""A fleet by hand on nodes of a network of its own, whose processes are restarted whenever they end, as by a job controller; and the
faults of its network. Needs root and `ip`. Standard library only.
"""
import functools
import json
import signal
import subprocess
import threading
import time

import chaos
import features
import fleet
import network
from chaos import HEARTBEAT_TIMEOUT, Broken, kind

PORT = 7070
RESTART_SECONDS = 0.2
SMALLER, LARGER = b"nobody came within", b"workers have joined"  # logged by the coordinator when the fleet has changed its size


class NodeFleet:
    """Workers on the first nodes, one each; then nodes for replacements of workers that are cut off; and the coordinator on the last."""

    def __init__(self, folder, config, report, workers, environment=None, idle=1):
        self.folder, self.report, self.environment = folder, report, environment
        self.config = folder / "run.yaml"
        self.config.write_text(json.dumps(config))
        self.network = network.Network(workers + idle + 1)
        self.coordinator = workers + idle
        self.wanted = {*range(workers), self.coordinator}  # nodes on which a process is kept running
        self.processes, self.ended = {}, []  # by node; (node, exit code)
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True)

    def open(self):
        self.network.open()
        self.keeper.start()

    def log(self, node):
        return self.folder / ("coordinator.log" if node == self.coordinator else f"worker-{node}.log")

    def command(self, node):
        address = f"{self.network.address(self.coordinator)}:{PORT}"
        if node == self.coordinator:
            return ["coordinator", "--config", str(self.config), "--listen", address, "--state-dir", str(self.folder / ".coordinator"),
                    "--report", str(self.report), "--supervised", "--log-level", "info"]
        return ["worker", "--coordinator", address, "--device", "cpu", "--threads", "1", "--interface", "eth0",
                "--advertise", f"node-{node}", "--supervised", "--quiet"]

    def start(self, node):
        with open(self.log(node), "ab") as log:
            self.processes[node] = subprocess.Popen([*self.network.inside(node), fleet.BINARY, *self.command(node)], cwd=self.folder,
                                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)

    def keep(self):
        while not self.closing.wait(0.02):
            with self.lock:
                for node, process in list(self.processes.items()):
                    if process.poll() is not None:
                        self.ended.append((node, process.returncode, time.monotonic()))
                        del self.processes[node]
                lately = {node for node, _, at in self.ended[-2 * len(self.network.names):] if time.monotonic() < at + RESTART_SECONDS}
                for node in self.wanted - self.processes.keys() - lately:
                    self.start(node)

    def pids(self, role):
        with self.lock:
            return {node: process.pid for node, process in self.processes.items()
                    if (node == self.coordinator) == (role == "coordinator") and process.poll() is None}

    def workers(self):
        """The nodes that should have a worker."""
        return sorted(self.wanted - {self.coordinator})

    def move(self, node):
        """Moves this node's worker to another node, which is returned; the process that runs here is left alone."""
        with self.lock:
            free = next(each for each in range(self.coordinator) if each not in self.wanted)
            self.end(free)
            self.wanted = self.wanted - {node} | {free}
        return free

    def leave_out(self, nodes):
        """Ends the workers of these nodes, and starts no others there."""
        with self.lock:
            self.wanted = self.wanted - {*nodes}
            for node in nodes:
                self.end(node)

    def take_back(self, nodes):
        with self.lock:
            self.wanted = self.wanted | {*nodes}

    def end(self, node):
        """Kills the process on a node."""
        with self.lock:
            process = self.processes.get(node)
            if process is not None:
                process.kill()
                process.wait()

    def close(self):
        self.closing.set()
        if self.keeper.is_alive():
            self.keeper.join()
        for node in list(self.processes):
            self.end(node)
        self.network.close()


class OnNodes(chaos.Chaos):
    """A run across nodes."""

    fleet = None
    least = 0  # the fewest workers with which the run goes on
    without = features.WITHIN_A_NODE  # one rank a node
    judged = 0  # number of ends of the coordinator that have been judged
    starts_are_told_again = True

    @staticmethod
    @functools.cache
    def impossible():
        reasons = {"lose_packets": network.why_no_loss(), "choke_a_node": network.trial(lambda made: made.choke(0, "2mbit"))}
        return {**chaos.Chaos.impossible(), **{name: reason for name, reason in reasons.items() if reason}}

    def start(self):
        config = self.drawn_config()
        config["restart"].setdefault("form_timeout_seconds", 20)
        self.least = config["restart"].get("min_workers", self.workers_wanted)
        self.log = self.folder / "coordinator.log"
        workers = self.workers_wanted + config["restart"].get("spares", 0)
        # Namespaces of one machine could reach each other through shared memory.
        self.fleet = NodeFleet(self.folder, config, self.report, workers, {**self.environment(), "UCX_TLS": "tcp"})
        self.fleet.open()

    def children(self, role):
        return sorted(self.fleet.pids(role).values())

    def go_on(self):
        """Processes that ended are restarted. That the run ended by itself is expected only if restarts were used up."""
        with self.fleet.lock:
            codes = [code for node, code, _ in self.fleet.ended if node == self.fleet.coordinator]
        if codes.count(chaos.LOST) > self.spent:
            chaos.check_restarts_are_spent(self.log.read_bytes(), codes.count(chaos.LOST))
        self.spent = codes.count(chaos.LOST)
        unexpected = set(codes[self.judged:]) - {-signal.SIGKILL, chaos.LOST, 128 + signal.SIGTERM, *self.may_end}
        self.judged = len(codes)
        if unexpected:
            raise Broken(f"the coordinator ended with {unexpected}")

    def end(self):
        pass  # a supervised fleet ends only when its processes are killed

    def close(self):
        if self.fleet is not None:
            self.fleet.close()

    # --- faults of a network

    def a_node(self):
        return self.draw.choice(self.fleet.workers())

    @kind
    def cut_a_node(self):
        """Cuts a node off for a while: from less than the heartbeat timeout to longer than it takes to give up the rank."""
        node = self.a_node()
        self.fleet.network.cut(node)
        time.sleep(self.draw.uniform(0.2, 2.5 * HEARTBEAT_TIMEOUT))
        self.fleet.network.heal(node)

    @kind
    def cut_a_node_for_good(self):
        """Cuts a node off until its worker is replaced on another node; then it is back, with the process that still runs there."""
        node = self.a_node()
        self.fleet.network.cut(node)
        time.sleep(self.draw.uniform(0, 2 * HEARTBEAT_TIMEOUT))
        self.fleet.move(node)
        self.await_progress()
        self.fleet.network.heal(node)

    @kind
    def cut_a_node_and_kill_another(self):
        node = self.a_node()
        self.fleet.network.cut(node)
        time.sleep(self.draw.uniform(0, HEARTBEAT_TIMEOUT + 0.5))  # also in the recovery
        self.signal_some("worker", signal.SIGKILL)
        time.sleep(self.draw.uniform(0, 1))
        self.fleet.network.heal(node)

    @kind
    def cut_between_two(self):
        """Both reach the coordinator, but not each other."""
        one, other = self.draw.sample(self.fleet.workers(), 2)
        self.fleet.network.cut_between(one, other)
        time.sleep(self.draw.uniform(0.2, 8))  # the hang timeout is 5 s
        for node in (one, other):
            self.fleet.network.heal(node)

    @kind
    def cut_the_coordinator(self):
        self.fleet.network.cut(self.fleet.coordinator)
        time.sleep(self.draw.uniform(0.2, 2.5 * HEARTBEAT_TIMEOUT))
        self.fleet.network.heal(self.fleet.coordinator)

    @kind
    def cut_and_kill_the_coordinator(self):
        self.fleet.network.cut(self.fleet.coordinator)
        time.sleep(self.draw.uniform(0, HEARTBEAT_TIMEOUT))
        self.signal_some("coordinator", signal.SIGKILL)
        time.sleep(self.draw.uniform(0, HEARTBEAT_TIMEOUT))
        self.fleet.network.heal(self.fleet.coordinator)

    @kind
    def lose_packets(self):
        nodes = self.draw.sample([*self.fleet.workers(), self.fleet.coordinator], self.draw.randint(1, 2))
        for node in nodes:
            self.fleet.network.lose_packets(node, self.draw.choice([0.01, 0.1, 0.3, 0.6]))
        time.sleep(self.draw.uniform(0.5, 5))
        for node in nodes:
            self.fleet.network.heal(node)

    @kind
    def choke_a_node(self):
        node = self.a_node()
        self.fleet.network.choke(node, self.draw.choice(["64kbit", "1mbit", "8mbit"]))
        time.sleep(self.draw.uniform(0.5, 5))
        self.fleet.network.heal(node)

    # --- faults of a supervised fleet

    @kind
    def stop_a_worker(self):
        """Stops a worker until its node's supervisor kills it: a process that still exists is not restarted."""
        pid = self.draw.choice(self.children("worker"))
        self.send(pid, signal.SIGSTOP)
        time.sleep(HEARTBEAT_TIMEOUT + self.draw.uniform(0, 2))
        self.send(pid, signal.SIGKILL)

    @kind
    def term_a_worker(self):
        self.signal_some("worker", signal.SIGTERM)

    @kind
    def take_workers_away(self):
        """Nothing takes their places: if the fleet may be smaller it goes on without them, and with them once they are back."""
        shrinks = self.least < self.workers_wanted
        spares = len(self.fleet.workers()) - self.workers_wanted
        most = self.workers_wanted - self.least if shrinks else 1
        gone = self.draw.sample(self.fleet.workers(), self.draw.randint(1, most) + (spares if shrinks else 0))
        smaller, larger = self.logged().count(SMALLER), self.logged().count(LARGER)
        self.fleet.leave_out(gone)
        if shrinks:
            self.await_line(SMALLER, smaller)
            self.await_progress()
        else:
            time.sleep(self.draw.uniform(0, HEARTBEAT_TIMEOUT))
        self.fleet.take_back(gone)
        if shrinks:
            self.await_line(LARGER, larger)

    def await_line(self, line, before):
        deadline = time.monotonic() + chaos.PATIENCE
        while self.logged().count(line) <= before:
            self.go_on()
            if time.monotonic() > deadline:
                raise Broken(f"no line with \"{line.decode()}\" within {chaos.PATIENCE} s")
            time.sleep(0.05)

    @kind
    def term_the_coordinator(self):
        self.signal_some("coordinator", signal.SIGTERM)

    def kill_all_of_it(self):
        self.kill_everything()

    @kind
    def kill_everything(self):
        for role in ("coordinator", "worker"):
            self.signal_some(role, signal.SIGKILL, 100)
