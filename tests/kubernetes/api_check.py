#!/usr/bin/env python3
"""The chart and a real API server: every set of values installs by Helm into a namespace that enforces the `restricted` Pod
Security level, the pods that the controllers would make are admitted, an upgrade replaces the Job, and an uninstall leaves nothing.

etcd and the API server alone: no pod runs. scripts/setup.sh kubernetes makes them.
"""
import json
import shutil
import sys
import tempfile
import unittest

import control_plane

CHART = control_plane.ROOT / "helm" / "zerofleet"
NAMESPACE = "training"
# Of controllers that are not installed here.
FOREIGN = {"jobset", "tls-cert-manager", "observed", "metrics-tls"}
# The rest of a set without what another controller defines.
WITHOUT = {"node": ("--set", "metrics.monitors.enabled=false")}
KINDS = "statefulsets,jobs,services,configmaps,persistentvolumeclaims,networkpolicies,poddisruptionbudgets"


class ApiCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = control_plane.missing("etcd", "kube-apiserver", "kubectl", "helm")
        if why:
            sys.exit(f"api_check.py: {why}")
        cls.work = tempfile.mkdtemp(prefix="zerofleet-api-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.cluster = control_plane.ControlPlane(cls.work)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        # What the controller manager would make.
        cls.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
            *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
              for name in ("default", "trainer")),
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10},
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})

    def helm(self, *arguments):
        ran = self.cluster.command("helm", *arguments, "-n", NAMESPACE)
        self.assertEqual(ran.returncode, 0, f"helm {' '.join(arguments)}: {ran.stderr}")
        self.assertNotIn("would violate", ran.stderr)
        return ran.stdout

    def objects(self):
        return self.cluster.kubectl("get", KINDS, "-n", NAMESPACE, "-l", "app.kubernetes.io/instance=run", "-o", "name").split()

    def admit(self, kind):
        """The pod that the controller would make of the template."""
        template = json.loads(self.cluster.kubectl("get", kind, "-n", NAMESPACE, "-o", "json"))["items"][0]["spec"]
        spec = template["template"]["spec"]
        for claim in template.get("volumeClaimTemplates", []):
            spec["volumes"].append({"name": claim["metadata"]["name"], "emptyDir": {}})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NAMESPACE}, "spec": spec}
        ran = self.cluster.command("kubectl", "create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
        self.assertEqual(ran.returncode, 0, f"{kind}: {ran.stderr}")

    def test_the_namespace_refuses_what_is_not_restricted(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NAMESPACE},
               "spec": {"containers": [{"name": "c", "image": "i"}]}}
        ran = self.cluster.command("kubectl", "create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
        self.assertIn('violates PodSecurity "restricted', ran.stderr)

    def test_every_value_set_installs_and_leaves_nothing(self):
        sets = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
        self.assertGreaterEqual(len(sets.keys() - FOREIGN), 12)
        for name in sorted(sets.keys() - FOREIGN):
            with self.subTest(values=name):
                self.helm("install", "run", str(CHART), "-f", str(sets[name]), *WITHOUT.get(name, ()))
                self.assertGreaterEqual(len(self.objects()), 6)
                self.admit("statefulset")
                self.admit("job")
                self.helm("uninstall", "run")
                # The claim is kept on purpose, and the protection of claims is a controller's work.
                for claim in self.cluster.kubectl("get", "pvc", "-n", NAMESPACE, "-o", "name").split():
                    self.cluster.kubectl("patch", claim, "-n", NAMESPACE, "-p", '{"metadata":{"finalizers":null}}')
                    self.cluster.kubectl("delete", claim, "-n", NAMESPACE, "--ignore-not-found")
                self.assertEqual([each for each in self.objects() if not each.startswith("job.batch/")], [])
                self.assertEqual(self.cluster.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "name"), "")

    def test_an_upgrade_replaces_the_job_and_only_then(self):
        self.helm("install", "run", str(CHART), "--set", "checkpoints.retain=false")
        first = self.cluster.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "name")
        self.helm("upgrade", "run", str(CHART), "--set", "checkpoints.retain=false,coordinator.resources.limits.memory=2Gi")
        self.assertEqual(self.cluster.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "name"), first)
        self.helm("upgrade", "run", str(CHART), "--set", "checkpoints.retain=false,config.steps=7")
        second = self.cluster.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "name").split()
        self.assertEqual(len(second), 1)
        self.assertNotEqual(second, first.split())
        self.helm("uninstall", "run")


if __name__ == "__main__":
    unittest.main(verbosity=2)
