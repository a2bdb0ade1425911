#!/usr/bin/env python3
"""The chart on the cluster of two nodes (see cluster.py) with controllers that are not Kubernetes' own (see controllers.py): workers
in a JobSet, a fleet that Kueue admits and puts back in its queue, certificates that cert-manager signs and renews, a TrainJob of
Kubeflow Trainer. As in pods_check.py, nothing of this changes a bit of a loss or of a run's final state.

Exit code 77 where this machine cannot be a node.
"""
import base64
import datetime
import json
import re
import ssl

import control_plane
import controllers
import release
from release import NAME, NAMESPACE, STEPS, fleet

QUEUES = control_plane.ROOT / "deploy" / "kueue" / "queues.yaml"
KUBEFLOW = control_plane.ROOT / "deploy" / "kubeflow"
QUEUE, PRIORITY, AUTHORITY = "training", "batch", "fleet-ca"
ROOM, ROOM_FOR_ONE = '"64"', "15m"  # cores in the queue: as it is in deploy/, and more than a worker's request but less than two's


class ControllersCheck(release.ReleaseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        controllers.start_jobset(cls.cluster)
        controllers.start_kueue(cls.cluster)
        controllers.start_cert_manager(cls.cluster)
        controllers.start_trainer(cls.cluster)

    def test_a_jobset_trains_and_makes_a_killed_pod_anew(self):
        values = self.values(workers={"kind": "JobSet"})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        uid, index, pod = self.workers()[0]
        self.cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
        self.wait_for("a new pod of that index", lambda: any(each[1] == index and each[0] != uid for each in self.workers()))
        self.assert_complete_and_undisturbed(values)
        self.recoveries("its session ended")
        jobset, = self.cluster.get("jobsets", "-n", NAMESPACE)["items"]
        self.assertEqual((jobset["status"]["terminalState"], jobset["status"].get("restarts", 0)), ("Completed", 0))
        self.uninstall()
        self.assertEqual(self.cluster.get("jobsets", "-n", NAMESPACE)["items"], [])

    # --- Kueue

    def queue(self, cores):
        """The queue of deploy/, in the fleets' namespace and with so much room."""
        queues = QUEUES.read_text()
        for old, new in ((f"cpu, nominalQuota: {ROOM}", f"cpu, nominalQuota: {cores}"), ("namespace: default", f"namespace: {NAMESPACE}")):
            self.assertEqual(queues.count(old), 1)
            queues = queues.replace(old, new)
        self.cluster.kubectl("apply", "-f", "-", input=queues)
        self.cluster.apply({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadPriorityClass", "metadata": {"name": PRIORITY},
                            "value": 10})

    def queued(self, **changes):
        return self.values(kueue={"queueName": QUEUE, "priorityClass": PRIORITY}, **changes)

    def refusals(self):
        """Why the queue has no room for what waits in it."""
        return [condition["message"] for each in self.cluster.get("workloads", "-n", NAMESPACE)["items"]
                for condition in each.get("status", {}).get("conditions", [])
                if condition["type"] == "QuotaReserved" and condition["status"] == "False"]

    def job(self):
        return self.cluster.get("jobs", "-n", NAMESPACE)["items"][0]

    def assert_waits_and_then_goes_on(self):
        """While the queue has room for one worker there is none; when it has room for both they train."""
        refusal, = self.cluster.wait_for("the queue to refuse it", self.refusals)
        self.assertIn("insufficient quota for cpu", refusal)
        self.assertTrue(self.job()["spec"]["suspend"])
        self.assertEqual(self.pods(), [])
        self.queue(ROOM)
        self.wait_until_step(10)
        self.assertEqual(self.refusals(), [])

    def test_a_queue_admits_a_fleet_whole_and_may_take_its_place_back(self):
        values = self.queued(config={"steps": 2 * STEPS})
        self.undisturbed(values)
        self.queue(ROOM_FOR_ONE)
        self.install(values)
        self.assert_waits_and_then_goes_on()

        # An upgrade that is not about the workers leaves them alone.
        workers = self.workers()
        self.upgrade(fleet.merged(values, {"podDisruptionBudget": {"maxUnavailable": 2}}))
        self.assertFalse(self.job()["spec"]["suspend"])
        self.assertEqual(self.workers(), workers)

        # As by a preemption: the Job is suspended, and its workers save before they go.
        at = self.step()
        self.hold("HoldAndDrain")
        self.wait_for("no worker", lambda: not self.pods())
        self.assertTrue(self.job()["spec"]["suspend"])
        self.assertLess(self.step(), 2 * STEPS)
        self.hold("None")
        self.assert_complete_and_undisturbed(values)
        # They have saved before they left, one after the other or both at once.
        self.assertGreaterEqual(self.recoveries("its session ended", perhaps=("its session ended",))[-1]["resumed_step"], at)
        self.uninstall()
        self.cluster.wait_for("nothing to be left in the queue", lambda: not self.cluster.get("workloads", "-n", NAMESPACE)["items"])

    def hold(self, policy):
        self.cluster.kubectl("patch", "clusterqueue", QUEUE, "--type=merge", "-p", json.dumps({"spec": {"stopPolicy": policy}}))

    def test_a_queue_admits_a_jobset_whole(self):
        values = self.queued(workers={"kind": "JobSet"})
        self.undisturbed(values)
        self.queue(ROOM_FOR_ONE)
        self.install(values)
        self.assert_waits_and_then_goes_on()
        self.assert_complete_and_undisturbed(values)
        self.recoveries()
        self.uninstall()

    # --- cert-manager

    def make_issuer(self):
        folder = self.work / AUTHORITY
        folder.mkdir()
        self.cluster.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                         "-subj", "/CN=fleet", "-keyout", folder / "tls.key", "-out", folder / "tls.crt")
        self.cluster.kubectl("create", "secret", "tls", AUTHORITY, "-n", NAMESPACE, f"--cert={folder / 'tls.crt'}",
                             f"--key={folder / 'tls.key'}")
        self.cluster.apply({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": AUTHORITY, "namespace": NAMESPACE},
                            "spec": {"ca": {"secretName": AUTHORITY}}})

    def issued(self, role):
        """What cert-manager has written for that role: a folder with the Secret's files."""
        folder = self.work / role
        folder.mkdir(exist_ok=True)
        for name, value in self.cluster.get("secret", f"{NAME}-{role}-tls", "-n", NAMESPACE)["data"].items():
            (folder / name).write_bytes(base64.b64decode(value))
        return folder

    def served(self, pod, role):
        """The certificate by which that pod's metrics port is who it is, to a worker."""
        own = self.issued("worker")
        context = ssl.create_default_context(cafile=own / "ca.crt")
        context.load_cert_chain(own / "tls.crt", own / "tls.key")
        with self.connection(pod, 9400, role, context) as secure:
            return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True))

    def renew(self, role):
        """As cert-manager's command line does."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{NAME}-{role}"
        conditions = self.cluster.get("certificate", name, "-n", NAMESPACE)["status"]["conditions"]
        self.cluster.kubectl("patch", "certificate", name, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", json.dumps({
            "status": {"conditions": [*conditions, {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
                                                    "message": "by a test", "lastTransitionTime": now}]}}))

    def test_certificates_are_signed_by_cert_manager_and_renewed_under_a_run(self):
        self.make_issuer()
        values = self.values(config={"steps": 2 * STEPS}, tls={"enabled": True, "certManager": {"issuerName": AUTHORITY}},
                             metrics={"tls": True}, workers={"resources": {"limits": {"cpu": "200m"}}})  # slow enough for a renewal
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        pods = {"coordinator": f"{NAME}-coordinator-0", "worker": self.workers()[0][2]}
        former = {role: self.served(pod, role) for role, pod in pods.items()}
        for role in pods:
            self.assertEqual(former[role], (self.issued(role) / "tls.crt").read_text())
            self.renew(role)
        for role, pod in pods.items():
            self.wait_for(f"the {role}'s new certificate", lambda role=role, pod=pod: self.served(pod, role) != former[role])
            self.assertEqual(self.served(pod, role), (self.issued(role) / "tls.crt").read_text())
        at = self.step()
        self.assertLess(at, 2 * STEPS, "the run was over before the renewal")
        self.wait_for("training to go on", lambda: self.step() > at + 50)
        self.assert_complete_and_undisturbed(values)
        self.recoveries()
        self.uninstall()

    # --- Kubeflow Trainer

    def start_train_job(self, values):
        """The runtime and the TrainJob of deploy/ with this image and run, two workers, and a report."""
        changes = {
            "runtime.yaml": (("image: zerofleet:0.2.0", f"image: {release.REPOSITORY}:{release.TAG}"),
                             ("- --run-name=$(JOBSET_NAME)", "- --run-name=$(JOBSET_NAME)\n- --report=/checkpoints/report.jsonl"),
                             ('requests: {cpu: "1", memory: 1Gi}', "requests: {cpu: 10m, memory: 64Mi}")),
            "trainjob.yaml": (("numNodes: 4", "numNodes: 2"),)}
        config = fleet.merged(values["config"], {"checkpoint": {"dir": "/checkpoints/run"}})
        claims = (("checkpoints", values["checkpoints"]["storageClass"], "ReadWriteMany"), ("data", "trainjob-data", "ReadOnlyMany"))
        (self.cluster.volume("trainjob-data", "ReadOnlyMany") / "train.txt").write_bytes(self.text.read_bytes())
        self.cluster.kubectl("create", "secret", "generic", "zerofleet-token", "-n", NAMESPACE, "--from-literal=token=of-the-train-job")
        self.cluster.apply({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "zerofleet-run", "namespace": NAMESPACE},
            "data": {"run.yaml": json.dumps(config)}}, *({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"zerofleet-{name}", "namespace": NAMESPACE},
            "spec": {"accessModes": [mode], "storageClassName": storage, "resources": {"requests": {"storage": "1Mi"}}}}
            for name, storage, mode in claims))
        for file, pairs in changes.items():
            text = (KUBEFLOW / file).read_text()
            for old, new in pairs:
                at = re.search(rf"^( *){re.escape(old)}", text, flags=re.M)
                self.assertIsNotNone(at, f"{file}: {old}")
                text = text.replace(old, new.replace("\n", f"\n{at[1]}"))
            objects = [each for each in text.split("---\n") if "kind: ConfigMap" not in each]
            self.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", input="---\n".join(objects))

    def pods_of(self, role):
        """(uid, name) of the TrainJob's pods of that role that are not on their way out."""
        found = self.cluster.get("pods", "-n", NAMESPACE, "-l", f"jobset.sigs.k8s.io/replicatedjob-name={role}")["items"]
        return [(pod["metadata"]["uid"], pod["metadata"]["name"]) for pod in found
                if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") in ("Pending", "Running")]

    def evict(self, role):
        """Evicts a pod of that role, and waits for another in its place."""
        uid, name = self.pods_of(role)[0]
        self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", "-f", "-", input=json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}))
        count = {"coordinator": 1, "node": 2}[role]
        self.wait_for(f"a new {role}", lambda: (left := self.pods_of(role)) and len(left) == count and uid not in dict(left))

    def test_a_train_job_goes_on_after_evictions(self):
        self.RUN_KIND = "trainjobs"
        values = self.values(config={"steps": 2 * STEPS})
        self.undisturbed(values)
        self.start_train_job(values)
        self.wait_until_step(10)
        self.evict("coordinator")
        at = self.step()
        self.wait_for("training to go on", lambda: self.step() > at + 50)
        self.evict("node")
        self.wait_for_recovery(1)
        self.assert_complete_and_undisturbed(values)
        self.recoveries("its session ended", perhaps=("its session ended",))
        self.cluster.kubectl("delete", "trainjob", "run", "-n", NAMESPACE)
        self.cluster.wait_for("its JobSet to be gone", lambda: not self.cluster.get("jobsets", "-n", NAMESPACE)["items"])
        for kind, name in (("networkpolicy", "zerofleet-run"), ("configmap", "zerofleet-run"), ("secret", "zerofleet-token"),
                           ("pvc", "zerofleet-checkpoints"), ("pvc", "zerofleet-data")):
            self.cluster.kubectl("delete", kind, name, "-n", NAMESPACE)
        self.cluster.wait_for("nothing to be left", lambda: self.objects() == self.before)


if __name__ == "__main__":
    release.main(*controllers.PROGRAMS)
