"""A release of the chart in a cluster that runs its pods: how a test installs one, looks at it, and holds what it has trained
against the same run as processes of this machine that nothing has disturbed.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import cluster
import control_plane
import image

sys.path.insert(0, str(control_plane.ROOT / "tests" / "integration"))
import fleet  # noqa: E402

CHART = control_plane.ROOT / "helm" / "zerofleet"
NAMESPACE, RELEASE, NAME = "training", "run", "run-zerofleet"
REPOSITORY, TAG = "zerofleet.test/zerofleet", "test"
STEPS = 4000  # some 10 s on an idle machine: long enough for two pods to be lost and to come back
OBJECTS = "all,configmaps,persistentvolumeclaims,networkpolicies,poddisruptionbudgets"
HOST = "kubernetes.io/hostname"
LINE = 300  # characters of a line of a log, where a test has failed
# One worker on each node that takes pods.
SPREAD = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}


class ReleaseTest(unittest.TestCase):
    NODES = 2
    RUN_KIND = "jobs"  # of the object that is complete when the run is

    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-pods-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.cluster = cluster.Cluster(cls.work, cls.NODES)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        subprocess.run(["cmake", "--install", str(pathlib.Path(fleet.BINARY).parent), "--prefix", str(cls.work / "bundle"),
                        "--component", "zerofleet"], check=True, stdout=subprocess.DEVNULL)
        image.pause(cls.work / "pause.tar", cluster.PAUSE_IMAGE)
        image.product(cls.work / "product.tar", f"{REPOSITORY}:{TAG}", cls.work / "bundle")
        for node in cls.cluster.nodes:
            for archive in ("pause.tar", "product.tar"):
                node.load_image(cls.work / archive)
        corpus = cls.cluster.volume("corpus", "ReadOnlyMany")
        cls.text = corpus / "train.txt"
        cls.text.write_text(fleet.english_like_text(50_000))
        cls.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "corpus", "namespace": NAMESPACE},
             "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "corpus", "resources": {"requests": {"storage": "1Mi"}}}})
        cls.installs, cls.wanted = 0, {}
        cls.cluster.wait_for("the namespace's service account", lambda: cls.cluster.command(
            "kubectl", "get", "serviceaccount", "default", "-n", NAMESPACE).returncode == 0)
        cls.before = cls.objects()

    def run(self, result=None):
        """Shows the cluster's own view of a test that failed."""
        failed = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failed:
            for what in (("get", "pods,jobs,pvc", "-o", "wide"), ("get", "nodes"), ("get", "events"),
                         ("logs", f"{NAME}-coordinator-0", "--tail=30"),
                         ("logs", "-l", "app.kubernetes.io/component=worker", "--tail=20", "--prefix")):
                for line in self.cluster.command("kubectl", *what, "-n", NAMESPACE).stdout.splitlines():
                    print(line[:LINE], file=sys.stderr)
            self.cluster.command("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "2m")
        return result

    # --- a release

    def values(self, **changes):
        """The values of a release with volumes of its own, whose checkpoints and report lie in self.checkpoints."""
        type(self).installs += 1
        state, checkpoints = f"state-{self.installs}", f"checkpoints-{self.installs}"
        self.cluster.volume(state, "ReadWriteOnce")
        self.checkpoints = self.cluster.volume(checkpoints, "ReadWriteMany")
        small = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
        return fleet.merged({
            "image": {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
            "config": {
                "model": {"family": "gpt2", "layers": 2, "hidden": 24, "heads": 3, "context": 32},
                "data": {"train": ["/data/train.txt"]}, "parallel": {"workers": 2, "zero_stage": 2}, "precision": "fp32",
                "batch": {"global_sequences": 12}, "steps": STEPS, "checkpoint": {"every_steps": 100, "keep": 2},
                "restart": {"heartbeat_timeout_seconds": 20}},
            # The coordinator stays where it is; only workers' nodes are lost here.
            "coordinator": {"resources": small, "state": {"storageClass": state, "size": "1Mi"}, "report": "/checkpoints/report.jsonl",
                            "nodeSelector": {HOST: self.cluster.nodes[0].name}},
            "workers": {"resources": small, "terminationGracePeriodSeconds": 60, "topologySpreadConstraints": [SPREAD]},
            "checkpoints": {"storageClass": checkpoints, "size": "1Mi", "retain": False},
            "data": {"existingClaim": "corpus"}}, changes)

    def helm(self, *arguments, **options):
        return self.cluster.run("helm", *arguments, "--namespace", NAMESPACE, **options)

    def install(self, values):
        self.helm("install", RELEASE, CHART, "-f", "-", input=json.dumps(values))

    def upgrade(self, values):
        self.helm("upgrade", RELEASE, CHART, "-f", "-", input=json.dumps(values))

    @classmethod
    def objects(cls):
        found = set(cls.cluster.kubectl("get", OBJECTS, "-n", NAMESPACE, "-o", "name").split())
        return found - {"configmap/kube-root-ca.crt"}  # the controllers' own, in every namespace

    def uninstall(self):
        self.helm("uninstall", RELEASE, "--wait", "--timeout", "3m")
        self.cluster.wait_for("nothing to be left", lambda: self.objects() == self.before)

    # --- what it does

    def condition(self, kind):
        """The run's condition of that type, if it is true."""
        runs = [each for each in self.cluster.get(self.RUN_KIND, "-n", NAMESPACE)["items"] if "deletionTimestamp" not in each["metadata"]]
        self.assertEqual(len(runs), 1)
        conditions = runs[0].get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)

    def pods(self):
        return self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=worker")["items"]

    def workers(self):
        """(uid, index, name) of each worker's pod."""
        return [(pod["metadata"]["uid"], pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], pod["metadata"]["name"])
                for pod in self.pods()]

    def pod_on(self, node):
        """The name of the worker's pod on that node."""
        return next(pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName") == node.name)

    def places(self):
        """The nodes on which workers train."""
        return [pod["spec"].get("nodeName") for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]
                and any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))]

    def connection(self, pod, port, role, context):
        """A connection under TLS to that port of a pod."""
        address = self.cluster.get("pod", pod, "-n", NAMESPACE)["status"]["podIP"]
        return context.wrap_socket(socket.create_connection((address, port), timeout=30), server_hostname=f"zerofleet-{role}")

    def status(self):
        shown = self.cluster.command("kubectl", "exec", "-n", NAMESPACE, f"{NAME}-coordinator-0", "--", "zerofleet", "status",
                                     "--coordinator", "localhost:7070", "--json")
        return json.loads(shown.stdout) if shown.returncode == 0 else {}

    def report(self):
        return fleet.Run(0, "", "", self.checkpoints / "report.jsonl")

    def step(self):
        return max(self.report().column("loss"), default=0)

    def wait_for(self, what, holds, seconds=control_plane.DEADLINE):
        self.cluster.wait_for(what, lambda: holds() or self.condition("Failed"), seconds)
        self.assertIsNone(self.condition("Failed"))

    def wait_until_step(self, step):
        """By the report alone: who waits must not be slower than the run."""
        self.cluster.wait_for(f"step {step}", lambda: self.step() >= step)
        self.assertLess(self.step(), STEPS // 2, "the run is over too soon")

    def wait_for_recovery(self, number):
        """Until the run has recovered so many times, and trains on."""
        self.wait_for(f"recovery {number}", lambda: len(self.report().of("recovery")) >= number)
        at = self.step()
        self.wait_for("training to go on", lambda: self.step() > at + 50)

    # --- what it has to be

    def undisturbed(self, values):
        """The losses and the last states of the same run as processes of this machine."""
        ranks_per_pod = values["workers"].get("ranksPerPod", 1)
        key = json.dumps({**values["config"], "restart": None, "ranks_per_pod": ranks_per_pod}, sort_keys=True)
        if key not in self.wanted:
            directory, report = self.work / f"undisturbed-{len(self.wanted)}", self.work / "undisturbed.jsonl"
            config = {**values["config"], "data": {"train": [str(self.text)]}, "device": "cpu",
                      "checkpoint": {"dir": str(directory), "every_steps": 0}}
            (self.work / "undisturbed.yaml").write_text(json.dumps(config))
            report.unlink(missing_ok=True)
            self.train_here(self.work / "undisturbed.yaml", report, config["parallel"]["workers"] // ranks_per_pod, ranks_per_pod)
            self.wanted[key] = (fleet.Run(0, "", "", report).column("loss"),
                                fleet.checkpoint_states(fleet.latest_checkpoint(directory)))
        return self.wanted[key]

    def train_here(self, config, report, pods, ranks_per_pod):
        """A run on this machine. The ranks of a pod are a team, which changes the order of sums, so they are one here, too."""
        if ranks_per_pod == 1:
            commands = [("train", config, "--report", report)]
        else:
            at = f"127.0.0.1:{control_plane.free_port()}"
            commands = [("coordinator", "--config", config, "--listen", at, "--report", report,
                         "--state-dir", tempfile.mkdtemp(dir=self.work))]
            commands += [("worker", "--coordinator", at, "--local", ranks_per_pod, "--node", f"pod-{pod}", "--device", "cpu")
                         for pod in range(pods)]
        started = [subprocess.Popen([fleet.BINARY, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for command in commands]
        for command, process in zip(commands, started):
            self.assertEqual(process.wait(600), 0, command)

    def assert_complete_and_undisturbed(self, values, every_step=True):
        """The run has come to its end, and every loss in its report is the undisturbed run's, those of steps done twice too."""
        self.wait_for("the Job to be complete", lambda: self.condition("Complete"), 600)
        self.wait_for("the end in the report", lambda: self.report().of("end"))
        losses, states = self.undisturbed(values)
        got = self.report().of("step")
        self.assertEqual([(each["step"], each["loss"]) for each in got if each["loss"] != losses[each["step"]]], [])
        if every_step:
            self.assertEqual({each["step"] for each in got}, set(losses))
        self.assertEqual(fleet.checkpoint_states(fleet.latest_checkpoint(self.checkpoints / "run")), states)

    def recoveries(self, *causes, perhaps=()):
        """The timeline: one of each cause, in this order, with a view of its own, from a step that was done, and in some time."""
        before, generation, found = 0, 0, []
        for each in self.report().events:
            if each["event"] == "step":
                before = max(before, each["step"])
            if each["event"] == "recovery":
                self.assertGreater(each["generation"], generation)
                self.assertLessEqual(each["resumed_step"], before)
                self.assertGreater(each["seconds"], 0)
                generation = each["generation"]
                found.append(each)
        self.assertIn(len(found), range(len(causes), len(causes) + len(perhaps) + 1), found)
        for each, cause in zip(found, (*causes, *perhaps)):
            self.assertIn(cause, each["cause"])
        return found


def main(*programs):
    """Runs the tests of the file that calls it, if this machine can be a node; they use these programs besides a cluster's own."""
    cluster.in_namespaces(*programs)
    if not os.access(fleet.BINARY, os.X_OK):
        sys.exit(f"{fleet.BINARY} is not there; build it, or name it in ZEROFLEET")
    unittest.main(verbosity=2)
