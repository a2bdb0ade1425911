#!/usr/bin/env python3
"""Ranks in network namespaces, a team in each, over TCP: sums have the bits of the in-process backend, training has those of
a run on one machine, and the kernel counts the bytes between namespaces that the closed form of two-level reductions says.

Needs root and `ip netns`; skipped, with the reason, where that is not permitted.
"""
import pathlib
import subprocess

import fleet
from network import Network, ip, why_not

RANK = pathlib.Path(fleet.BINARY).parent / "worker" / "collective" / "collective_rank"
ELEMENTS = 3_000_001  # bf16 elements, of collective_rank's scenario "counts"
# UCX's own headers are added, and the barrier's messages.
TOLERANCE = 0.005


class TeamsAcrossNodes(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        reason = why_not()
        if reason:
            self.skipTest(f"SKIPPED: {reason}")

    def measure(self, teams, team, in_teams):
        """The bytes that each node sent to others, [[in the reduce-scatter, in the all-gather] of node 0, ...]: as the kernel counts
        them, and as the ranks do."""
        world = teams * team
        nodes = ",".join(str(rank // team) for rank in range(world))
        network = Network(teams)
        self.addCleanup(network.close)
        network.open()
        # Namespaces of one machine could reach each other through shared memory.
        environment = {**self.environment(), "UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}
        ranks = []
        for rank in range(world):
            command = [*network.inside(rank // team), str(RANK), str(world), str(rank), "1", "counts",
                       str(team if in_teams else 0), nodes]
            ranks.append(subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            self.addCleanup(ranks[-1].stdout.close)
            self.addCleanup(ranks[-1].stdin.close)
        addresses = "".join(rank.stdout.readline() for rank in ranks)
        for rank in ranks:
            rank.stdin.write(addresses)
            rank.stdin.flush()
        self.assertEqual([rank.stdout.readline() for rank in ranks], ["joined\n"] * world)
        kernel, totals = [], []
        for _ in range(3):  # before the operations, and after each
            counted = [0] * teams
            for rank, process in enumerate(ranks):
                counted[rank // team] += int(process.stdout.readline().split()[1])
            totals.append(counted)
            kernel.append([network.sent_bytes(node) for node in range(teams)])
            for process in ranks:
                process.stdin.write("\n")
                process.stdin.flush()
        self.assertEqual([process.wait(timeout=fleet.RUN_SECONDS) for process in ranks], [0] * world, "a rank's sums are wrong")
        network.close()
        return [[[column[i + 1][node] - column[i][node] for i in range(2)] for node in range(teams)]
                for column in (kernel, totals)]

    def check(self, teams, team):
        elements_of_others = ELEMENTS * (teams - 1) / teams
        wanted = {True: 4 * elements_of_others, False: 2 * team * elements_of_others}
        gathered = 2 * ELEMENTS / teams * (teams - 1)
        for in_teams, reduced in wanted.items():
            kernel, totals = self.measure(teams, team, in_teams)
            for node in range(teams):
                for got, by, tolerance in ((kernel[node], "the kernel", TOLERANCE), (totals[node], "the ranks", 1e-5)):
                    what = f"{teams} nodes of {team}, {'two levels' if in_teams else 'one'}, node {node}, counted by {by}"
                    self.assertLessEqual(abs(got[0] / reduced - 1), tolerance, f"{what}: reduce-scatter, {got[0]} of {reduced}")
                    self.assertLessEqual(abs(got[1] / gathered - 1), tolerance, f"{what}: all-gather, {got[1]} of {gathered}")
                print(f"{teams} nodes of {team}, {'two levels' if in_teams else 'one level'}: node {node} sent {kernel[node]} "
                      f"bytes in a reduce-scatter and a gather; closed form {reduced:.0f} and {gathered:.0f}")

    def train_across(self, teams, team):
        """Losses by step of a fleet by hand: the coordinator beside the bridge, a team's workers on each node."""
        network = Network(teams)
        self.addCleanup(network.close)
        network.open()
        ip("-n", network.hub, "address", "add", "10.77.0.254/24", "dev", "bridge")
        environment = {**self.environment(), "UCX_TLS": "tcp"}
        name = f"across-{teams}-{team}"
        report = self.work / f"{name}.jsonl"

        def start(namespace, *arguments):
            process = subprocess.Popen(["ip", "netns", "exec", namespace, fleet.BINARY, *map(str, arguments)], cwd=self.work,
                                       env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for stream in (process.stdout, process.stderr):
                self.addCleanup(stream.close)
            return process

        config = self.write_config(self.trained(teams, team, name), f"{name}.yaml")
        coordinator = start(network.hub, "coordinator", "--config", config, "--listen", "10.77.0.254:7070", "--state-dir",
                            self.work / f"{name}-state", "--report", report)
        self.assertIn("listening on", coordinator.stdout.readline())
        workers = [start(network.names[rank // team], "worker", "--coordinator", "10.77.0.254:7070", "--device", "cpu",
                         "--threads", 1, "--interface", "eth0", "--advertise", f"node-{rank // team}")
                   for rank in range(teams * team)]
        for process in [*workers, coordinator]:
            _, err = process.communicate(timeout=fleet.RUN_SECONDS)
            self.assertEqual(process.returncode, 0, err[-3000:])
        network.close()
        return fleet.Run(0, "", "", report).column("loss")

    def trained(self, teams, team, name):
        return self.config(precision="bf16", parallel={"zero_stage": 3, "workers": teams * team, "team": team},
                           checkpoint={"dir": str(self.work / name)})

    def test_training_on_nodes_has_the_bits_of_training_on_one_machine(self):
        for teams, team in ((2, 2), (2, 3)):
            on_one = self.train(self.trained(teams, team, f"one-{teams}-{team}")).column("loss")
            across = self.train_across(teams, team)
            self.assert_same_bits(on_one, across, f"{teams} teams of {team}")

    def test_two_teams_of_two(self):
        self.check(2, 2)

    def test_two_teams_of_three(self):
        self.check(2, 3)

    def test_three_teams_of_two(self):
        self.check(3, 2)


if __name__ == "__main__":
    fleet.main()
