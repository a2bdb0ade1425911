"""A Kubernetes API server on this machine, with the etcd behind it: objects are checked, admitted and stored, and nothing is
done about them. `scripts/setup.sh kubernetes` makes both.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MADE = ROOT / "build" / "kubernetes"
BIN, DEBIAN = MADE / "bin", MADE / "debian" / "usr" / "bin"  # built; of unpacked packages
TOKEN = "the-only-user"
DEADLINE = 180  # seconds, of whatever is waited for


def missing(*programs):
    """Which of the programs are not there, as a reason to do without; empty if all are."""
    absent = [name for name in programs if not (BIN / name).exists() and not (DEBIAN / name).exists() and not shutil.which(name)]
    return f"{', '.join(absent)} not there; scripts/setup.sh kubernetes makes them" if absent else ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ControlPlane:
    def __init__(self, work, address="127.0.0.1"):
        self.work, self.address = pathlib.Path(work), address
        self.processes = {}  # to their logs, in order of their start
        kubeconfig = self.work / "kubeconfig"
        self.environment = {**os.environ, "PATH": f"{BIN}:{DEBIAN}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig),
                            "HOME": str(self.work)}
        self.port = free_port()
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"https://{address}:{self.port}", "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}]}))

    def start(self):
        etcd, peer = free_port(), free_port()
        (self.work / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        accounts = self.work / "accounts.key"
        self.run("openssl", "genrsa", "-out", accounts, "2048")
        self.spawn("etcd", "--data-dir", self.work / "etcd", "--listen-client-urls", f"http://127.0.0.1:{etcd}",
                   "--advertise-client-urls", f"http://127.0.0.1:{etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}")
        self.spawn("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={self.port}",
                   f"--bind-address={self.address}", f"--cert-dir={self.work}/certs", f"--token-auth-file={self.work}/tokens.csv",
                   "--authorization-mode=AlwaysAllow", "--service-cluster-ip-range=10.96.0.0/24",
                   "--service-account-issuer=https://zerofleet.test", f"--service-account-key-file={accounts}",
                   f"--service-account-signing-key-file={accounts}", "--kubelet-preferred-address-types=InternalIP")
        deadline = time.monotonic() + DEADLINE
        while self.command("kubectl", "get", "--raw", "/readyz").stdout != "ok":
            self.check_processes()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no API server within {DEADLINE} s")
            time.sleep(0.3)

    def stop(self):
        for process in reversed(list(self.processes)):
            self.end(process)

    def spawn(self, *command, log=None):
        """Starts one that stays, whose output goes to WORK/LOG.log; `log` is its name, if that is not the program's."""
        log = self.work / f"{log or command[0]}.log"
        with open(log, "ab") as file:
            process = subprocess.Popen([*map(str, command)], stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=self.environment)
        self.processes[process] = log
        return process

    def end(self, process):
        del self.processes[process]
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def check_processes(self):
        for process, log in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{log.stem} has ended with {process.returncode}: {log.read_text()[-2000:]}")

    def command(self, *command, **options):
        return subprocess.run([*map(str, command)], env=self.environment, check=False, capture_output=True, text=True, **options)

    def run(self, *command, **options):
        ran = self.command(*command, **options)
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {ran.stderr}")
        return ran.stdout

    def kubectl(self, *arguments, **options):
        return self.run("kubectl", *arguments, **options)

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
