#!/usr/bin/env python3
"""No process of `zerofleet train` listens outside loopback, metrics included; a worker's interface is checked by name."""
import ipaddress
import os
import pathlib
import signal
import time

import fleet


def sockets_of(pid):
    """The inodes of a process's sockets."""
    inodes = set()
    for descriptor in pathlib.Path("/proc", str(pid), "fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    return inodes


def address_of(text):
    """The address in /proc/net/tcp's hexadecimal: 32-bit words in this machine's byte order."""
    words = [bytes.fromhex(text[i:i + 8])[::-1] for i in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))


def listening(pid):
    """[(address, port)] on which a process accepts TCP connections."""
    inodes, found = sockets_of(pid), []
    for table in ("tcp", "tcp6"):
        path = pathlib.Path("/proc", str(pid), "net", table)
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A" and fields[9] in inodes:
                found.append((address_of(address), int(port, 16)))
    return found


def is_loopback(address):
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


class TrainStaysOnLoopback(fleet.FleetTest):
    def await_training(self, process, report):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if report.exists() and '"step"' in report.read_text():
                return
            time.sleep(0.02)  # polls a real process at intervals
        self.fail("no step within the time")

    def test_every_port(self):
        port = fleet.free_port(3)
        report = self.work / "report.jsonl"
        process = self.start("train", self.write_config(self.config(steps=1_000_000)), "--report", report,
                             "--metrics-port", port)
        self.await_training(process, report)
        ports = {}
        for pid in self.leftovers():
            for address, number in listening(pid):
                self.assertTrue(is_loopback(address), f"process {pid} listens on {address}, port {number}")
                ports.setdefault(pid, []).append(number)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=fleet.RUN_SECONDS)
        # The coordinator has a service and a metrics port; each worker a service, a metrics and a UCX port.
        self.assertEqual(sorted(map(len, ports.values())), [2, 3, 3], ports)
        self.assertLessEqual({port, port + 1, port + 2}, set(sum(ports.values(), [])))

    def test_an_interface_that_does_not_exist(self):
        run = self.run_command("worker", "--coordinator", "127.0.0.1:1", "--interface", "eth99")
        self.assertEqual(run.code, 2)
        self.assertRegex(run.err, r'--interface: network interface "eth99" does not exist; this machine has .*lo')


if __name__ == "__main__":
    fleet.main()
