"""A Kubernetes cluster of one node: besides the API server the controller manager, the scheduler, and a kubelet that runs pods
with containerd and runc, each pod in a network namespace of its own on a bridge. `scripts/setup.sh kubernetes` makes them.

Everything is the real thing but two: names are answered by the small DNS server below, from the EndpointSlices that the controllers
make; and volumes are folders of this machine. Network policies are not enforced.

It needs root, and namespaces of its own (`in_namespaces`): when the process ends, the kernel ends the pods and takes the mounts,
the bridge and the routes away. Two empty folders stay, /var/lib/kubelet and /var/lib/cni.
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
BRIDGE, GATEWAY, SUBNET = "zerofleet0", "10.244.99.1", "10.244.99.0/24"
PAUSE_IMAGE = "zerofleet.test/pause:1"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# What a kubelet sets for the whole machine: here it sets files in their place.
KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
          "kernel/keys/root_maxbytes")
# Where kubelet, containerd and plugins write wherever they are told to: memory of these namespaces' own.
FOLDERS = ("/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni")
SKIPPED = 77
PRIVATE = "ZEROFLEET_NODE_NAMESPACES"

CONTAINERD = """version = 2
root = "{work}/containerd"
state = "{work}/containerd-state"
[grpc]
  address = "{work}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{plugins}"
  conf_dir = "{work}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


def refusal():
    """Why this machine cannot be a node; empty if it can."""
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
    return control_plane.missing(*PROGRAMS)


def in_namespaces():
    """Goes on in namespaces of this process's own: mounts, network, processes. Skips where they are refused."""
    if PRIVATE in os.environ:
        subprocess.run(["mount", "--make-rshared", "/"], check=True)  # as a kubelet needs it; it reaches no further than here
        for folder in FOLDERS:
            pathlib.Path(folder).mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "zerofleet", folder], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a namespace has to ask for it
        return
    why = refusal()
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


class Node(control_plane.ControlPlane):
    def __init__(self, work):
        super().__init__(work)
        self.environment["PATH"] = f"{SBIN}:{self.environment['PATH']}:/usr/sbin:/sbin"
        self.stopping = threading.Event()
        for folder in ("cni", "certs", "volumes"):
            (self.work / folder).mkdir()

    def start(self):
        self.start_network()
        super().start()
        own = (f"--kubeconfig={self.work}/kubeconfig", "--leader-elect=false", "--bind-address=127.0.0.1", f"--cert-dir={self.work}/certs")
        self.spawn("kube-controller-manager", *own, f"--secure-port={control_plane.free_port()}",
                   f"--service-account-private-key-file={self.work}/accounts.key")
        self.spawn("kube-scheduler", *own, f"--secure-port={control_plane.free_port()}")
        self.start_containerd()
        self.start_kubelet()
        self.wait_for("a node that is ready", lambda: "True" in self.command(
            "kubectl", "get", "nodes", "-o", 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}').stdout)

    def start_network(self):
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        self.run("ip", "link", "set", BRIDGE, "up")
        self.run("ip", "route", "add", "default", "dev", BRIDGE)
        (self.work / "cni" / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "fleet", "plugins": [{
                "type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipam": {
                    "type": "host-local", "dataDir": str(self.work / "addresses"), "ranges": [[{"subnet": SUBNET}]],
                    "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        threading.Thread(target=self.serve_names, daemon=True).start()

    def start_containerd(self):
        (self.work / "containerd.toml").write_text(CONTAINERD.format(work=self.work, plugins=PLUGINS, pause=PAUSE_IMAGE))
        self.spawn("containerd", "--config", self.work / "containerd.toml")
        self.wait_for("containerd", lambda: self.ctr("version").returncode == 0)

    def start_kubelet(self):
        for name in KERNEL:
            setting, own = pathlib.Path("/proc/sys") / name, self.work / "kernel" / name
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(setting.read_text())
            self.run("mount", "--bind", own, setting)
        (self.work / "resolv.conf").write_text(f"nameserver {GATEWAY}\n")
        (self.work / "kubelet.yaml").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},
            "address": GATEWAY, "port": 10250, "healthzPort": 0, "failSwapOn": False, "failCgroupV1": False,
            "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [], "makeIPTablesUtilChains": False,
            "clusterDNS": [GATEWAY], "clusterDomain": "cluster.local", "resolvConf": str(self.work / "resolv.conf"),
            "containerRuntimeEndpoint": f"unix://{self.work}/containerd.sock", "evictionHard": {"nodefs.available": "1%"},
            "imageGCHighThresholdPercent": 100, "podLogsDir": str(self.work / "pod-logs"),
            "volumePluginDir": str(self.work / "volume-plugins")}))
        self.spawn("kubelet", f"--config={self.work}/kubelet.yaml", f"--kubeconfig={self.work}/kubeconfig",
                   f"--root-dir={self.work}/kubelet", f"--cert-dir={self.work}/certs", "--hostname-override=node", f"--node-ip={GATEWAY}")

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
            for process in self.processes:
                if process.poll() is not None:
                    log = (self.work / f"{process.args[0]}.log").read_text()
                    raise RuntimeError(f"{process.args[0]} has ended with {process.returncode}: {log[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s for {what}")
            time.sleep(0.3)

    def get(self, kind, *arguments):
        return json.loads(self.kubectl("get", kind, "-o", "json", *arguments))

    def ctr(self, *arguments):
        return self.command("ctr", "-a", self.work / "containerd.sock", "-n", "k8s.io", *arguments)

    def load_image(self, archive):
        loaded = self.ctr("images", "import", archive)
        if loaded.returncode != 0:
            raise RuntimeError(f"containerd does not take {archive}: {loaded.stderr}")

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
            f"https://127.0.0.1:{self.port}/apis/discovery.k8s.io/v1/namespaces/{labels[-2]}/endpointslices"
            f"?labelSelector=kubernetes.io/service-name%3D{labels[-3]}", headers={"Authorization": f"Bearer {control_plane.TOKEN}"})
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=5) as answer:
            slices = json.load(answer)["items"]
        return [address for each in slices for endpoint in each["endpoints"] or [] for address in endpoint["addresses"]
                if len(labels) == 3 or endpoint.get("hostname") == labels[0]]

    def serve_names(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((GATEWAY, 53))
            server.settimeout(0.5)
            while not self.stopping.is_set():
                try:
                    query, client = server.recvfrom(4096)
                    server.sendto(dns_answer(query, self.addresses_of), client)
                except (OSError, ValueError, IndexError):
                    continue  # nothing asked, or nothing that can be answered: the client asks again
