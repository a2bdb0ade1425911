#!/usr/bin/env python3
"""The chart on a cluster of one node that runs its pods (see node.py): a run trains to its end, and nothing that is taken from it
on the way changes a bit of its final state. The namespace enforces the `restricted` Pod Security level.

Exit code 77 where this machine cannot be a node.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import control_plane
import image
import node

sys.path.insert(0, str(control_plane.ROOT / "tests" / "integration"))
import fleet  # noqa: E402

CHART = control_plane.ROOT / "helm" / "zerofleet"
NAMESPACE, RELEASE, NAME = "training", "run", "run-zerofleet"
REPOSITORY, TAG = "zerofleet.test/zerofleet", "test"
STEPS = 3000  # long enough for two pods to be lost and to come back
OBJECTS = "all,configmaps,persistentvolumeclaims,networkpolicies,poddisruptionbudgets"


class PodsCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-pods-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.cluster = node.Node(cls.work)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        subprocess.run(["cmake", "--install", str(pathlib.Path(fleet.BINARY).parent), "--prefix", str(cls.work / "bundle"),
                        "--component", "zerofleet"], check=True, stdout=subprocess.DEVNULL)
        image.pause(cls.work / "pause.tar", node.PAUSE_IMAGE)
        image.product(cls.work / "product.tar", f"{REPOSITORY}:{TAG}", cls.work / "bundle")
        for archive in ("pause.tar", "product.tar"):
            cls.cluster.load_image(cls.work / archive)
        corpus = cls.cluster.volume("corpus", "ReadOnlyMany")
        cls.text = corpus / "train.txt"
        cls.text.write_text(fleet.english_like_text(50_000))
        cls.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "corpus", "namespace": NAMESPACE},
             "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "corpus", "resources": {"requests": {"storage": "1Mi"}}}})
        cls.installs = 0
        cls.cluster.wait_for("the namespace's service account", lambda: cls.cluster.command(
            "kubectl", "get", "serviceaccount", "default", "-n", NAMESPACE).returncode == 0)
        cls.before = cls.objects()

    def run(self, result=None):
        """Shows the cluster's own view of a test that failed."""
        failed = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failed:
            for what in (("get", "pods,jobs,pvc", "-o", "wide"), ("get", "events"), ("logs", f"{NAME}-coordinator-0", "--tail=30"),
                         ("logs", "-l", "app.kubernetes.io/component=worker", "--tail=20", "--prefix")):
                print(self.cluster.command("kubectl", *what, "-n", NAMESPACE).stdout, file=sys.stderr)
            self.cluster.command("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        return result

    # --- a run

    def values(self):
        """The values of a release with volumes of its own, whose checkpoints lie in self.checkpoints."""
        type(self).installs += 1
        state, checkpoints = f"state-{self.installs}", f"checkpoints-{self.installs}"
        self.cluster.volume(state, "ReadWriteOnce")
        self.checkpoints = self.cluster.volume(checkpoints, "ReadWriteMany")
        small = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
        return {
            "image": {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
            "config": {
                "model": {"preset": None, "family": "gpt2", "layers": 2, "hidden": 24, "heads": 3, "context": 32},
                "data": {"train": ["/data/train.txt"]}, "parallel": {"workers": 2, "zero_stage": 2}, "precision": "fp32",
                "batch": {"global_sequences": 12}, "steps": STEPS, "checkpoint": {"every_steps": 100, "keep": 2},
                "restart": {"heartbeat_timeout_seconds": 20}},
            "coordinator": {"resources": small, "state": {"storageClass": state, "size": "1Mi"}},
            "workers": {"resources": small, "terminationGracePeriodSeconds": 60},
            "checkpoints": {"storageClass": checkpoints, "size": "1Mi", "retain": False},
            "data": {"existingClaim": "corpus"}}

    def undisturbed(self, values):
        """The last checkpoint of the same run as processes of this machine."""
        directory = self.work / "undisturbed"
        config = {**values["config"], "data": {"train": [str(self.text)]}, "device": "cpu",
                  "checkpoint": {"dir": str(directory), "every_steps": 0}}
        config["model"] = {key: value for key, value in config["model"].items() if value is not None}
        (self.work / "undisturbed.yaml").write_text(json.dumps(config))
        subprocess.run([fleet.BINARY, "train", str(self.work / "undisturbed.yaml")], check=True, capture_output=True, timeout=600)
        return fleet.checkpoint_states(fleet.latest_checkpoint(directory))

    def helm(self, *arguments, **options):
        return self.cluster.run("helm", *arguments, "--namespace", NAMESPACE, **options)

    def install(self, values):
        self.helm("install", RELEASE, CHART, "-f", "-", input=json.dumps(values))

    @classmethod
    def objects(cls):
        found = set(cls.cluster.kubectl("get", OBJECTS, "-n", NAMESPACE, "-o", "name").split())
        return found - {"configmap/kube-root-ca.crt"}  # the controllers' own, in every namespace

    def uninstall(self):
        self.helm("uninstall", RELEASE, "--wait", "--timeout", "3m")
        self.cluster.wait_for("nothing to be left", lambda: self.objects() == self.before)

    def condition(self, kind):
        """The Job's condition of that type, if it is true."""
        jobs = self.cluster.get("jobs", "-n", NAMESPACE)["items"]
        self.assertEqual(len(jobs), 1)
        return next((each for each in jobs[0]["status"].get("conditions", []) if each["type"] == kind and each["status"] == "True"), None)

    def workers(self):
        """(uid, index, name) of each worker's pod."""
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=worker")["items"]
        return [(pod["metadata"]["uid"], pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], pod["metadata"]["name"])
                for pod in pods]

    def status(self):
        shown = self.cluster.command("kubectl", "exec", "-n", NAMESPACE, f"{NAME}-coordinator-0", "--", "zerofleet", "status",
                                     "--coordinator", "localhost:7070", "--json")
        return json.loads(shown.stdout) if shown.returncode == 0 else {}

    def step(self):
        return int(self.status().get("step", 0))

    def wait_for(self, what, holds, seconds=control_plane.DEADLINE):
        self.cluster.wait_for(what, lambda: holds() or self.condition("Failed"), seconds)
        self.assertIsNone(self.condition("Failed"))

    # --- what it shows

    def test_a_run_that_loses_pods_ends_with_the_state_of_an_undisturbed_one(self):
        values = self.values()
        wanted = self.undisturbed(values)
        self.install(values)
        self.wait_for("the first steps", lambda: self.step() >= 10)

        self.wait_for("leave to evict one worker", lambda: self.cluster.get("poddisruptionbudget", NAME, "-n", NAMESPACE)[
            "status"].get("disruptionsAllowed") == 1)

        uid, _, pod = next(each for each in self.workers() if each[1] == "1")
        at = self.step()
        self.cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
        self.wait_for("a new pod of that index", lambda: any(each[1] == "1" and each[0] != uid for each in self.workers()))
        self.wait_for("training to go on", lambda: self.step() > at + 50)
        self.assertLess(self.step(), STEPS, "the run was over before the coordinator could be lost")

        self.helm("test", RELEASE, "--timeout", "3m")
        workers = self.workers()
        self.cluster.kubectl("delete", "pod", f"{NAME}-coordinator-0", "-n", NAMESPACE)
        self.wait_for("the Job to be complete", lambda: self.condition("Complete"), 600)
        self.assertEqual(self.workers(), workers, "the workers were to train on")
        self.wait_for("the coordinator to say so", lambda: self.status().get("phase") == "done")
        self.assertEqual(fleet.checkpoint_states(fleet.latest_checkpoint(self.checkpoints / "run")), wanted)
        self.helm("test", RELEASE, "--timeout", "3m")
        self.uninstall()

    def test_a_configuration_that_cannot_be_fails_the_job_at_once(self):
        values = self.values()
        values["config"]["batch"]["global_sequences"] = 13
        self.install(values)
        failed = self.cluster.wait_for("the Job to fail", lambda: self.condition("Failed"))
        self.assertEqual(failed["reason"], "PodFailurePolicy")
        self.assertIn("exit code 2", failed["message"])
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=worker")["items"]
        messages = [container["state"].get("terminated", {}).get("message", "") for pod in pods
                    for container in pod["status"].get("initContainerStatuses", [])]
        self.assertTrue(any("batch.global_sequences: 13 cannot be shared" in message for message in messages), messages)
        self.uninstall()


if __name__ == "__main__":
    node.in_namespaces()
    if not os.access(fleet.BINARY, os.X_OK):
        sys.exit(f"{fleet.BINARY} is not there; build it, or name it in ZEROFLEET")
    unittest.main(verbosity=2)
