"""Controllers that a cluster may have besides Kubernetes' own: those of JobSets, Kueue's, cert-manager's and Kubeflow Trainer's. Each
is a process beside the others rather than a pod, with its types in the API server and its webhooks, which the API server calls at an
address of its own rather than a Service's. `scripts/setup.sh kubernetes` builds them from their modules, and takes types and
webhooks from there.
"""
import base64
import json
import pathlib
import re
import shutil
import urllib.request

import cluster
import control_plane

TRAINER = "trainer-controller-manager"
PROGRAMS = ("jobset", "kueue", "cert-manager", TRAINER)
# Where Kueue has the certificate of its metrics, and Trainer that of its webhooks; no flag says otherwise.
KUEUE_FOLDER, TRAINER_FOLDER = pathlib.Path("/etc/kueue"), pathlib.Path("/tmp/k8s-webhook-server/serving-certs")
# Trainer makes a certificate for these names, unless a Secret of its namespace has one that is good for three more months.
TRAINER_NAMESPACE, TRAINER_AUTHORITY = "kubeflow-system", "kubeflow-trainer-ca"
CONFIGURATION = re.compile(r"^  name: (?=(?:mutating|validating)-webhook-configuration$)", flags=re.M)
SERVICE = re.compile(r"^( +)service:\n(?:\1  (?:name|namespace|port): \S+\n)*\1  path: (\S+)\n(?:\1  port: \S+\n)?", flags=re.M)


class Controller:
    """What all have: a certificate, two ports, and the files of their module."""

    def __init__(self, of, name):
        self.cluster, self.name, self.made = of, name, control_plane.MADE / name
        self.folder = of.work / name
        self.webhooks, self.health = control_plane.free_port(), control_plane.free_port()

    def start(self, *arguments, path="/readyz", webhooks_first=False):
        """The types, then the controller, then its webhooks; those first where the controller looks for them before it is ready."""
        self.create("types.yaml")
        self.cluster.wait_for(f"the types of {self.name}", self.types_are_there)
        if webhooks_first:
            self.create("webhooks.yaml")
        self.cluster.spawn(self.name, *arguments)
        self.cluster.wait_for(f"{self.name} to be ready", lambda: self.answers(path))
        if not webhooks_first:
            self.create("webhooks.yaml")

    def create(self, file):
        self.cluster.kubectl("create", "-f", "-", input=self.at_this_process(file))

    def types_are_there(self):
        return all(any(each["type"] == "Established" and each["status"] == "True" for each in kind.get("status", {}).get("conditions") or [])
                   for kind in self.cluster.get("customresourcedefinitions")["items"])

    def make_certificate(self, *names, days=2):
        self.folder.mkdir()
        subjects = ",".join((f"IP:{cluster.CONTROL}", *(f"DNS:{name}" for name in names)))
        self.cluster.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), "-subj", f"/CN={self.name}",
                         "-addext", f"subjectAltName={subjects}", "-keyout", self.folder / "tls.key", "-out", self.folder / "tls.crt")

    def at_this_process(self, file):
        """The file's objects, with this process in place of the Service that it would be behind, and names of their own."""
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        at = rf"\1url: https://{cluster.CONTROL}:{self.webhooks}\2\n\1caBundle: {authority}\n"
        objects = CONFIGURATION.sub(rf"\g<0>{self.name}-", SERVICE.sub(at, (self.made / file).read_text()))
        return "---\n".join(each for each in objects.split("---\n") if "\nkind: Service\n" not in f"\n{each}")

    def answers(self, path):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.health}{path}", timeout=5).status == 200
        except OSError:
            return False

    def configured(self, **fields):
        """A configuration file with what JobSet's and Kueue's have in common."""
        file = self.folder / "config.yaml"
        file.write_text(json.dumps({
            "kind": "Configuration", "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health}"},
            "webhook": {"host": cluster.CONTROL, "port": self.webhooks, "certDir": str(self.folder)}, **fields}))
        return f"--config={file}"


def start_jobset(of):
    jobset = Controller(of, "jobset")
    jobset.make_certificate()
    jobset.start(jobset.configured(apiVersion="config.jobset.x-k8s.io/v1alpha1"))


def start_kueue(of):
    kueue = Controller(of, "kueue")
    kueue.make_certificate()
    KUEUE_FOLDER.mkdir(exist_ok=True)
    of.run("mount", "-t", "tmpfs", "zerofleet", KUEUE_FOLDER)
    certificates = KUEUE_FOLDER / "metrics" / "certs"
    certificates.parent.mkdir()
    certificates.symlink_to(kueue.folder)
    kueue.start(kueue.configured(apiVersion="config.kueue.x-k8s.io/v1beta2", integrations={
        "frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]}, featureGates={"VisibilityOnDemand": False}))


def start_cert_manager(of):
    manager = Controller(of, "cert-manager")
    manager.make_certificate()
    manager.start(of.work / "kubeconfig", manager.folder, manager.webhooks, manager.health, path="/healthz")


def start_trainer(of):
    trainer = Controller(of, TRAINER)
    trainer.make_certificate(f"webhooks.{TRAINER_NAMESPACE}.svc", TRAINER_AUTHORITY, days=365)
    of.kubectl("create", "namespace", TRAINER_NAMESPACE)
    of.run("openssl", "rsa", "-in", trainer.folder / "tls.key", "-traditional", "-out", trainer.folder / "ca.key")
    files = {"ca.crt": "tls.crt", "ca.key": "ca.key", "tls.crt": "tls.crt", "tls.key": "tls.key"}
    of.kubectl("create", "secret", "generic", "webhooks", "-n", TRAINER_NAMESPACE,
               *(f"--from-file={key}={trainer.folder / file}" for key, file in files.items()))
    # Where a kubelet would put the Secret.
    TRAINER_FOLDER.mkdir(parents=True, exist_ok=True)
    of.run("mount", "-t", "tmpfs", "zerofleet", TRAINER_FOLDER)
    for file in ("tls.crt", "tls.key"):
        shutil.copy(trainer.folder / file, TRAINER_FOLDER)
    trainer.start("--webhook-service-name=webhooks", "--webhook-secret-name=webhooks", f"--webhook-server-port={trainer.webhooks}",
                  f"--health-probe-bind-address=127.0.0.1:{trainer.health}", webhooks_first=True)
