"""A Kubernetes cluster on this machine: besides the API server the controller manager, the scheduler, and nodes, each of which is
a kubelet that runs pods with containerd and runc. `scripts/setup.sh kubernetes` makes the programs.

A node has a network namespace with an address of its own, and so has each of its pods; one cable leads from each node to the bridge
that the control plane is on, and `cut_off` pulls it. Everything is the real thing but two: names are answered by the small DNS server
below, from the EndpointSlices that the controllers make; and volumes are folders of this machine, whichever node mounts them. Network
policies are not enforced.

It needs root, and namespaces of its own (`in_namespaces`): when the process ends, the kernel ends the pods and takes the mounts,
the bridge and the routes away. Empty folders stay: /var/lib/kubelet, /var/lib/cni and, of controllers.py, /etc/kueue and
/tmp/k8s-webhook-server.
"""
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.request

import control_plane

SBIN, PLUGINS = control_plane.MADE / "debian" / "usr" / "sbin", control_plane.MADE / "debian" / "usr" / "lib" / "cni"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "helm", "kube-controller-manager", "kube-scheduler", "kubelet", "containerd", "ctr")
# The control plane is at 10.244.0.1, node i at 10.244.i.1, and its pods at 10.244.i.2 and on.
BRIDGE, CONTROL, SUBNET = "zerofleet0", "10.244.0.1", "10.244.0.0/16"
NODE_BRIDGE = "cni0"  # in each node's namespace
PAUSE_IMAGE = "zerofleet.test/pause:1"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# What a kubelet sets for the whole machine: here it sets files in their place.
KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
          "kernel/keys/root_maxbytes")
# Where kubelet, containerd and plugins write wherever they are told to: memory of these namespaces' own.
FOLDERS = ("/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni")
NODE_GRACE = 12  # seconds without a heartbeat after which a node is not ready
SKIPPED = 77
PRIVATE = "ZEROFLEET_NODE_NAMESPACES"

CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{plugins}"
  conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


def refusal(programs):
    """Why this machine cannot be a node, or has not got these programs for a cluster; empty if it can and has."""
    if os.geteuid() != 0:
        return "a node needs root"
    tried = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c",
                            f"ip link add {BRIDGE} type bridge && mount -t tmpfs none /mnt"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"no namespaces, bridges or mounts here: {tried.stderr.strip()}"
    try:
        for hierarchy in (CGROUPS / "memory", CGROUPS / "cpu") if (CGROUPS / "memory").is_dir() else (CGROUPS,):
            (hierarchy / "zerofleet-probe").mkdir(exist_ok=True)
            (hierarchy / "zerofleet-probe").rmdir()
    except OSError as error:
        return f"no control groups can be made here: {error}"
    return control_plane.missing(*PROGRAMS, *programs)


def in_namespaces(*programs):
    """Goes on in namespaces of this process's own: mounts, network, processes. Skips where they are refused, or where a cluster's
    programs or these are missing."""
    if PRIVATE in os.environ:
        subprocess.run(["mount", "--make-rshared", "/"], check=True)  # as a kubelet needs it; it reaches no further than here
        for folder in FOLDERS:
            pathlib.Path(folder).mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "zerofleet", folder], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a namespace has to ask for it
        return
    why = refusal(programs)
    if why:
        print(f"SKIPPED: {pathlib.Path(sys.argv[0]).name}: {why}", flush=True)
        sys.exit(SKIPPED)
    os.environ[PRIVATE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                          sys.executable, *sys.argv])


def dns_answer(query, addresses_of):
    """The answer to one DNS query: A records of what `addresses_of` knows, NXDOMAIN for other names."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    found = addresses_of(labels)
    records = sorted(found) if kind == 1 and found else []
    head = query[:2] + struct.pack(">HHHHH", 0x8580 if found else 0x8583, 1, len(records), 0, 0)
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(each) for each in records)
    return head + query[12:at + 5] + body


class Node:
    """One machine of the cluster: its namespace, its cable, its containerd and its kubelet."""

    def __init__(self, cluster, number):
        self.cluster, self.name, self.address = cluster, f"node-{number}", f"10.244.{number}.1"
        self.number, self.cable = number, f"cable-{number}"
        self.folder = cluster.work / self.name

    def start(self):
        (self.folder / "cni").mkdir(parents=True)
        self.start_network()
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(folder=self.folder, plugins=PLUGINS, pause=PAUSE_IMAGE))
        self.spawn("containerd", "--config", self.folder / "containerd.toml")
        self.cluster.wait_for(f"containerd of {self.name}", lambda: self.ctr("version").returncode == 0)
        self.start_kubelet()

    def inside(self, *command):
        """The command in this node's network. `ip netns exec` would also give it mounts of its own, which containerd must share."""
        return ("nsenter", f"--net=/run/netns/{self.name}", *command)

    def spawn(self, program, *arguments):
        return self.cluster.spawn(*self.inside(program, *arguments), log=f"{self.name}-{program}")

    def start_network(self):
        run = self.cluster.run
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", self.cable, "master", BRIDGE, "up")
        for command in (("link", "set", "lo", "up"), ("link", "add", NODE_BRIDGE, "type", "bridge"),
                        ("link", "set", "eth0", "master", NODE_BRIDGE, "up"), ("addr", "add", f"{self.address}/16", "dev", NODE_BRIDGE),
                        ("link", "set", NODE_BRIDGE, "up"), ("route", "add", "default", "via", CONTROL)):
            run(*self.inside("ip", *command))
        pods = f"10.244.{self.number}"
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "fleet", "plugins": [{
                "type": "bridge", "bridge": NODE_BRIDGE, "ipam": {
                    "type": "host-local", "dataDir": str(self.folder / "addresses"), "routes": [{"dst": "0.0.0.0/0"}],
                    "ranges": [[{"subnet": SUBNET, "rangeStart": f"{pods}.2", "rangeEnd": f"{pods}.254", "gateway": CONTROL}]]}}]}))

    def start_kubelet(self):
        (self.folder / "kubelet.yaml").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},
            "address": self.address, "port": 10250, "healthzPort": 0, "failSwapOn": False, "failCgroupV1": False,
            "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [], "makeIPTablesUtilChains": False,
            "clusterDNS": [CONTROL], "clusterDomain": "cluster.local", "resolvConf": str(self.cluster.work / "resolv.conf"),
            "containerRuntimeEndpoint": f"unix://{self.folder}/containerd.sock", "evictionHard": {"nodefs.available": "1%"},
            "imageGCHighThresholdPercent": 100, "podLogsDir": str(self.folder / "pod-logs"),
            "syncFrequency": "10s",  # within which a changed Secret reaches the pods that have mounted it
            "nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": NODE_GRACE,
            "volumePluginDir": str(self.cluster.work / "volume-plugins")}))
        self.spawn(
            "kubelet", f"--config={self.folder}/kubelet.yaml", f"--kubeconfig={self.cluster.work}/kubeconfig",
            f"--root-dir={self.folder}/kubelet", f"--cert-dir={self.folder}/certs", f"--hostname-override={self.name}",
            f"--node-ip={self.address}")

    def is_ready(self):
        """What the control plane believes."""
        found = self.cluster.command("kubectl", "get", "node", self.name, "-o",
                                     'jsonpath={.status.conditions[?(@.type=="Ready")].status}')
        return found.stdout == "True"

    def cut_off(self):
        """Nothing comes from this node or gets to it, of its pods or of its kubelet; what runs there goes on."""
        self.cluster.run("ip", "link", "set", self.cable, "down")

    def reconnect(self):
        self.cluster.run("ip", "link", "set", self.cable, "up")

    def ctr(self, *arguments):
        return self.cluster.command("ctr", "-a", self.folder / "containerd.sock", "-n", "k8s.io", *arguments)

    def containers(self):
        """What containerd runs here."""
        return self.ctr("tasks", "ls", "-q").stdout.split()

    def load_image(self, archive):
        loaded = self.ctr("images", "import", archive)
        if loaded.returncode != 0:
            raise RuntimeError(f"containerd of {self.name} does not take {archive}: {loaded.stderr}")


class Cluster(control_plane.ControlPlane):
    def __init__(self, work, nodes):
        super().__init__(work, address=CONTROL)
        self.environment["PATH"] = f"{SBIN}:{self.environment['PATH']}:/usr/sbin:/sbin"
        self.stopping = threading.Event()
        self.nodes = [Node(self, number + 1) for number in range(nodes)]
        for folder in ("certs", "volumes"):
            (self.work / folder).mkdir()

    def start(self):
        self.start_network()
        super().start()
        own = (f"--kubeconfig={self.work}/kubeconfig", "--leader-elect=false", "--bind-address=127.0.0.1", f"--cert-dir={self.work}/certs")
        self.spawn("kube-controller-manager", *own, f"--secure-port={control_plane.free_port()}",
                   f"--service-account-private-key-file={self.work}/accounts.key", f"--node-monitor-grace-period={NODE_GRACE}s",
                   "--node-monitor-period=1s")
        self.spawn("kube-scheduler", *own, f"--secure-port={control_plane.free_port()}")
        self.prepare_for_kubelets()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            self.wait_for(f"{node.name} to be ready", node.is_ready)

    def start_network(self):
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "addr", "add", f"{CONTROL}/16", "dev", BRIDGE)
        self.run("ip", "link", "set", BRIDGE, "up")
        self.run("ip", "route", "add", "default", "dev", BRIDGE)
        threading.Thread(target=self.serve_names, daemon=True).start()

    def prepare_for_kubelets(self):
        for name in KERNEL:
            setting, own = pathlib.Path("/proc/sys") / name, self.work / "kernel" / name
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(setting.read_text())
            self.run("mount", "--bind", own, setting)
        (self.work / "resolv.conf").write_text(f"nameserver {CONTROL}\n")

    def stop(self):
        self.stopping.set()
        super().stop()
        for group in sorted(CGROUPS.glob("**/k8s.io/**"), reverse=True):
            if group.is_dir():
                subprocess.run(["rmdir", str(group)], check=False, capture_output=True)

    def wait_for(self, what, holds, seconds=control_plane.DEADLINE):
        deadline = time.monotonic() + seconds
        while True:
            value = holds()
            if value:
                return value
            self.check_processes()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s for {what}")
            time.sleep(0.3)

    def get(self, kind, *arguments):
        return json.loads(self.kubectl("get", kind, "-o", "json", *arguments))

    def volume(self, name, mode):
        """A persistent volume that is a folder here; its path."""
        folder = self.work / "volumes" / name
        folder.mkdir()
        folder.chmod(0o777)
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "persistentVolumeReclaimPolicy": "Retain",
                             "storageClassName": name, "hostPath": {"path": str(folder)}}})
        return folder

    # --- names

    def addresses_of(self, labels):
        """The addresses of a headless service's pods, or of one of them: [pod.]service.namespace.svc[.cluster.local]."""
        if labels[-2:] == ["cluster", "local"]:
            labels = labels[:-2]
        if labels[-1:] != ["svc"] or len(labels) not in (3, 4):
            return []
        request = urllib.request.Request(
            f"https://{self.address}:{self.port}/apis/discovery.k8s.io/v1/namespaces/{labels[-2]}/endpointslices"
            f"?labelSelector=kubernetes.io/service-name%3D{labels[-3]}", headers={"Authorization": f"Bearer {control_plane.TOKEN}"})
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=5) as answer:
            slices = json.load(answer)["items"]
        return [address for each in slices for endpoint in each["endpoints"] or [] for address in endpoint["addresses"]
                if len(labels) == 3 or endpoint.get("hostname") == labels[0]]

    def serve_names(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((CONTROL, 53))
            server.settimeout(0.5)
            while not self.stopping.is_set():
                try:
                    query, client = server.recvfrom(4096)
                    server.sendto(dns_answer(query, self.addresses_of), client)
                except (OSError, ValueError, IndexError):
                    continue  # nothing asked, or nothing that can be answered: the client asks again
