"""Nodes on one machine: network namespaces on a bridge, links that can be cut, packets that get lost. Needs root and `ip`.

Packets are lost by netem where the kernel has it, else by a filter of the kernel's classifier (`cls_bpf`) that draws a random number for
each packet. Standard library only.
"""
import os
import re
import shutil
import subprocess

# Classic BPF, for `tc filter ... bpf bytecode`: (code, jump if true, jump if false, operand).
LOAD_WORD, JUMP_IF_EQUAL, JUMP_IF_GREATER_OR_EQUAL, RETURN = 0x20, 0x15, 0x35, 0x06
RANDOM = 0xFFFFF038  # the offset of the kernel's random number: SKF_AD_OFF + SKF_AD_RANDOM
DESTINATION = 14 + 16  # the offset of the IPv4 destination, behind the Ethernet header
PASS, DROP = 0, 2  # TC_ACT_OK, TC_ACT_SHOT
COUNTS = ["ss", "--tcp", "--info", "--numeric", "--oneline", "--no-header"]  # of each connection, on a line


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def tc(namespace, *arguments):
    subprocess.run(["tc", "-n", namespace, *arguments], check=True, capture_output=True, text=True)


def bytecode(*instructions):
    return f"{len(instructions)}," + ",".join(" ".join(map(str, each)) for each in instructions)


def dropping(share):
    """A program that drops this share of all packets, at random."""
    limit = min(0xFFFFFFFF, round(share * 2**32))
    return bytecode((LOAD_WORD, 0, 0, RANDOM), (JUMP_IF_GREATER_OR_EQUAL, 1, 0, limit), (RETURN, 0, 0, DROP), (RETURN, 0, 0, PASS))


def dropping_all_to(address):
    number = int.from_bytes(map(int, address.split(".")), "big")
    return bytecode((LOAD_WORD, 0, 0, DESTINATION), (JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, DROP), (RETURN, 0, 0, PASS))


class Network:
    """A bridge, in a namespace of its own, with one namespace per node on it."""

    def __init__(self, nodes):
        self.prefix = f"zf{os.getpid()}n"
        self.names = [f"{self.prefix}{node}" for node in range(nodes)]
        self.hub = f"{self.prefix}hub"

    def open(self):
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for node, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{node}", "netns", self.hub)
            ip("-n", self.hub, "link", "set", f"port{node}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", name, "link", "set", link, "up")

    def close(self):
        for name in [*self.names, self.hub]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    def inside(self, node):
        """The prefix of a command that runs it on the node."""
        return ["ip", "netns", "exec", self.names[node]]

    def sent_bytes(self, node):
        """The bytes that the node's open TCP connections to other nodes have sent so far, by the kernel's count: of the streams, so
        without headers, acknowledgments and what was sent again."""
        sent = 0
        for connection in ip("netns", "exec", self.names[node], *COUNTS).splitlines():
            peer = connection.split()[4].rsplit(":", 1)[0].strip("[]").removeprefix("::ffff:")
            if peer != self.address(node):
                counts = dict(re.findall(r"\b(bytes_sent|bytes_retrans):(\d+)", connection))
                sent += int(counts.get("bytes_sent", 0)) - int(counts.get("bytes_retrans", 0))
        return sent

    # --- faults; `heal` ends them all

    def cut(self, node):
        """Nothing reaches the node or leaves it, and nobody is told: its own interface stays up."""
        ip("-n", self.hub, "link", "set", f"port{node}", "nomaster")

    def cut_between(self, one, other):
        """These two cannot reach each other; all others reach both."""
        for a, b in ((one, other), (other, one)):
            self.filter(self.hub, f"port{a}", dropping_all_to(self.address(b)))

    def lose_packets(self, node, share):
        """This share of the packets to the node, and of those from it, is lost."""
        for namespace, link in ((self.hub, f"port{node}"), (self.names[node], "eth0")):
            try:
                tc(namespace, "qdisc", "add", "dev", link, "root", "netem", "loss", f"{100 * share}%")
            except subprocess.CalledProcessError:
                self.filter(namespace, link, dropping(share))

    def choke(self, node, rate):
        """The node's link carries no more than `rate` (such as 2mbit) each way, and delays what has to wait."""
        for namespace, link in ((self.hub, f"port{node}"), (self.names[node], "eth0")):
            tc(namespace, "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "32kb", "latency", "200ms")

    @staticmethod
    def filter(namespace, link, program):
        """All packets that the link receives go through the program."""
        subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", link, "clsact"], check=False, capture_output=True)
        tc(namespace, "filter", "add", "dev", link, "ingress", "protocol", "all", "bpf", "direct-action", "bytecode", program)

    def heal(self, node):
        for namespace, link in ((self.hub, f"port{node}"), (self.names[node], "eth0")):
            for qdisc in ("root", "clsact"):
                subprocess.run(["tc", "-n", namespace, "qdisc", "del", "dev", link, qdisc], check=False, capture_output=True)
        ip("-n", self.hub, "link", "set", f"port{node}", "master", "bridge", "up")


def trial(action):
    """Why this cannot be done to a network on this machine, or None: found by trying it on a network of two nodes."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root and the command `ip`"
    network = Network(2)
    try:
        network.open()
        action(network)
    except subprocess.CalledProcessError as error:
        return (error.stderr or str(error)).strip()
    except FileNotFoundError as error:
        return str(error)
    finally:
        network.close()
    return None


def why_not():
    """Why such a network cannot be made here, or None."""
    def use(network):
        subprocess.run([*network.inside(0), "true"], check=True, capture_output=True, text=True)
        network.sent_bytes(0)
    reason = trial(use)
    return reason and f"network namespaces are not permitted here: {reason}"


def why_no_loss():
    """Why packets cannot be lost here, or None."""
    reason = trial(lambda network: network.lose_packets(0, 0.1))
    return reason and f"neither netem nor cls_bpf is there: {reason}"
