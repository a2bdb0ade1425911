#!/usr/bin/env python3
"""The chart on a cluster of two nodes that runs its pods (see cluster.py): a run trains to its end, and nothing that is taken from
it on the way, pods or nodes, changes a bit of a loss or of its final state. The namespace enforces the `restricted` Pod Security level.

Exit code 77 where this machine cannot be a node.
"""
import contextlib
import functools
import json
import os
import pathlib
import resource
import signal
import socket
import ssl

import release
from release import HOST, NAME, NAMESPACE, RELEASE, STEPS, fleet

# Two ranks in each of two pods, one on each node.
PODS_OF_TWO = {"config": {"parallel": {"workers": 4}, "model": {"heads": 4, "hidden": 32}}, "workers": {"ranksPerPod": 2}}
# More than the descriptors that containerd gives a process, and more than a metrics port serves at a time.
SILENT_CLIENTS, SILENT_SCRAPERS = 3000, 300


class PodsCheck(release.ReleaseTest):
    def test_a_run_that_loses_pods_ends_with_the_state_of_an_undisturbed_one(self):
        values = self.values()
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)

        uid, _, pod = next(each for each in self.workers() if each[1] == "1")
        at = self.step()
        self.cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
        self.wait_for("a new pod of that index", lambda: any(each[1] == "1" and each[0] != uid for each in self.workers()))
        self.wait_for("training to go on", lambda: self.step() > at + 50)
        self.assertLess(self.step(), STEPS, "the run was over before the coordinator could be lost")

        self.helm("test", RELEASE, "--timeout", "3m")
        workers = self.workers()
        self.cluster.kubectl("delete", "pod", f"{NAME}-coordinator-0", "-n", NAMESPACE)
        # Of steps while there was no coordinator its report tells nothing.
        self.assert_complete_and_undisturbed(values, every_step=False)
        self.assertEqual(self.workers(), workers, "the workers were to train on")
        self.recoveries("its session ended")
        self.wait_for("the coordinator to say so", lambda: self.status().get("phase") == "done")
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

    def evict(self, pod):
        """As a drain or a preemption does."""
        return self.cluster.command("kubectl", "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "-f", "-",
                                    input=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                                                      "metadata": {"name": pod, "namespace": NAMESPACE}}))

    def wait_for_budget(self):
        """Until one worker may go."""
        self.wait_for("leave to evict one worker", lambda: self.cluster.get("poddisruptionbudget", NAME, "-n", NAMESPACE)[
            "status"].get("disruptionsAllowed") == 1)

    def test_one_worker_at_a_time_may_be_evicted(self):
        values = self.values()
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        self.wait_for_budget()
        first, second = (each[2] for each in self.workers())
        at = self.step()
        evicted, refused = self.evict(first), self.evict(second)
        self.assertEqual(evicted.returncode, 0, evicted.stderr)
        self.assertIn("disruption budget", refused.stderr)
        self.assert_complete_and_undisturbed(values)
        recovery, = self.recoveries("its session ended")
        # It has saved before it left.
        self.assertGreaterEqual(recovery["resumed_step"], at)
        self.assertLess(recovery["lost_steps"], 100)
        job = self.cluster.get("jobs", "-n", NAMESPACE)["items"][0]
        self.assertEqual(job["status"].get("failedIndexes", ""), "")
        self.uninstall()

    def test_a_node_is_drained_of_one_worker_after_the_other(self):
        stays, goes = self.cluster.nodes
        preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [goes.name]}]}}]
        # Long enough for the first to be ready at its new place, and for a drain to try the second again.
        values = self.values(config={"steps": 3 * STEPS}, workers={"topologySpreadConstraints": [], "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        self.wait_for_budget()
        self.assertEqual(self.places(), [goes.name] * 2)
        self.addCleanup(self.cluster.command, "kubectl", "uncordon", goes.name)
        self.cluster.kubectl("drain", goes.name, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=170s")
        self.wait_for("two workers on the other node", lambda: self.places() == [stays.name] * 2)
        self.assert_complete_and_undisturbed(values)
        self.recoveries("its session ended", "its session ended")
        self.uninstall()

    def test_a_node_is_drained_while_a_spare_waits(self):
        stays, goes = self.cluster.nodes
        preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [goes.name]}]}}]
        values = self.values(config={"steps": 3 * STEPS, "restart": {"spares": 1}},
                             workers={"topologySpreadConstraints": [], "affinity": {"nodeAffinity": {
                                 "preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        self.wait_for_budget()  # the spare is not ready, and not counted
        self.assertEqual(self.places(), [goes.name] * 2)
        self.addCleanup(self.cluster.command, "kubectl", "uncordon", goes.name)
        self.cluster.kubectl("drain", goes.name, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=170s")
        self.wait_for("two workers on the other node", lambda: self.places() == [stays.name] * 2)
        self.wait_for("its spare, too", lambda: [pod["spec"].get("nodeName") for pod in self.pods()] == [stays.name] * 3)
        self.assert_complete_and_undisturbed(values)
        # A spare that takes a place before it has to go, too, is drained of it once more.
        self.recoveries("its session ended", "its session ended", perhaps=("its session ended",))
        self.uninstall()

    def members(self):
        """What the coordinator knows of each rank, by rank."""
        return {each["rank"]: each for each in self.status().get("members", [])}

    def processes_of(self, index):
        """The processes of the ranks in the pod of that index, by their place in it; at None the one that starts them."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                arguments = (process / "cmdline").read_text().split("\0")
                variables = (process / "environ").read_text().split("\0")
            except OSError:
                continue  # it has ended
            if f"JOB_COMPLETION_INDEX={index}" in variables and any(each.startswith("--local") for each in arguments):
                rank = int(arguments[arguments.index("--local-rank") + 1]) if "--local-rank" in arguments else None
                found[rank] = int(process.name)
        return found

    def install_pods_of_two(self, **config):
        values = self.values(**fleet.merged(PODS_OF_TWO, {"config": config}))
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        self.assertEqual({rank: each["node_name"] for rank, each in self.members().items()},
                         {rank: self.cluster.nodes[rank // 2].name for rank in range(4)}, "a pod's ranks must follow each other")
        return values

    def test_tensor_groups_of_two_pods_go_on_from_the_other_nodes_copies(self):
        # No checkpoint before the end: a snapshot is the newest state.
        values = self.install_pods_of_two(parallel={"tensor": 2},
                                          checkpoint={"every_steps": 0, "snapshot_every_steps": 10, "replicate": 1})
        self.wait_until_step(100)
        uid, _, pod = next(each for each in self.workers() if each[1] == "1")
        node = self.cluster.get("pod", pod, "-n", NAMESPACE)["spec"]["nodeName"]
        ranks = [rank for rank, each in sorted(self.members().items()) if each["node_name"] == node]
        os.kill(self.processes_of(1)[1], signal.SIGKILL)
        self.wait_for_recovery(1)
        self.assertIn(uid, [each[0] for each in self.workers()], "the pod was to start its lost rank again")

        os.kill(self.processes_of(1)[None], signal.SIGKILL)  # nobody is asked to save
        self.wait_for("a new pod of that index", lambda: any(each[1] == "1" and each[0] != uid for each in self.workers()))
        self.wait_for_recovery(2)
        self.assert_complete_and_undisturbed(values)
        one, both, *more = self.recoveries("its session ended", "its session ended", perhaps=("its session ended",))
        self.assertEqual(one["failed_ranks"], ranks[1:])
        self.assertLessEqual(set(both["failed_ranks"]), set(ranks))
        self.assertEqual([each.get("from_memory") for each in (one, both, *more)], [True] * (2 + len(more)))
        self.uninstall()

    def test_the_ranks_of_a_pod_are_a_team(self):
        values = self.install_pods_of_two(parallel={"zero_stage": 3})
        self.assertEqual({rank: each["team"] for rank, each in self.members().items()}, {rank: rank // 2 for rank in range(4)})
        self.assert_complete_and_undisturbed(values)
        self.recoveries()
        self.uninstall()

    def test_clients_that_say_nothing_keep_nobody_out(self):
        values = self.values(config={"steps": 3 * STEPS})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * SILENT_CLIENTS), hard))
        name = f"{NAME}-coordinator-0"
        address = self.cluster.get("pod", name, "-n", NAMESPACE)["status"]["podIP"]
        with contextlib.ExitStack() as held:
            for port, count in ((7070, SILENT_CLIENTS), (9400, SILENT_SCRAPERS)):
                for _ in range(count):
                    held.enter_context(socket.create_connection((address, port), timeout=30))
            uid, _, pod = next(each for each in self.workers() if each[1] == "1")
            self.cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
            self.wait_for("a new pod of that index", lambda: any(each[1] == "1" and each[0] != uid for each in self.workers()))
            self.wait_for_recovery(1)
            self.assertEqual(self.status().get("phase"), "training")
            status = self.cluster.get("pod", name, "-n", NAMESPACE)["status"]
        self.assertEqual([(each["ready"], each["restartCount"]) for each in status["containerStatuses"]], [(True, 0)])
        self.assert_complete_and_undisturbed(values)
        self.recoveries("its session ended")
        self.uninstall()

    def on_each_node(self):
        """A run whose node may be cut off: the values, installed, and it trains."""
        values = self.values(config={"restart": {"heartbeat_timeout_seconds": 8}}, workers={"nodeLossSeconds": 4})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        self.assertEqual(sorted(pod["spec"]["nodeName"] for pod in self.pods()), [node.name for node in self.cluster.nodes])
        return values

    def cut_off(self, node):
        """Until its pod has been given up."""
        pod = self.pod_on(node)
        self.addCleanup(node.reconnect)
        node.cut_off()
        self.wait_for("the node to be given up", lambda: not node.is_ready())
        self.wait_for("its pod, too", lambda: "deletionTimestamp" in self.cluster.get("pod", pod, "-n", NAMESPACE)["metadata"])
        return pod

    def test_what_a_node_that_is_cut_off_had_goes_on_when_it_is_back(self):
        values = self.on_each_node()
        node = self.cluster.nodes[1]
        self.cut_off(node)
        self.assertEqual(len(self.pods()), 2, "the Job must not make another while the first may still run")
        node.reconnect()
        self.assert_complete_and_undisturbed(values)
        # The worker comes back by itself, until its kubelet hears that its pod has been given up; then another takes its place.
        self.recoveries("nothing heard for", perhaps=("its session ended",))
        self.uninstall()

    def test_what_a_node_that_is_lost_had_goes_on_elsewhere(self):
        values = self.on_each_node()
        stays, node = self.cluster.nodes
        lost = self.cut_off(node)
        # What an administrator, or a controller, says of a machine that is known to be off.
        taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        self.cluster.kubectl("taint", "nodes", node.name, taint)
        self.addCleanup(self.cluster.command, "kubectl", "taint", "nodes", node.name, taint + "-")
        self.wait_for("both workers on the other node", lambda: self.places() == [stays.name] * 2)
        self.assertNotIn(lost, [each[2] for each in self.workers()])
        node.reconnect()  # what it still runs is of an old generation
        self.assert_complete_and_undisturbed(values)
        self.recoveries("nothing heard for")
        self.cluster.kubectl("taint", "nodes", node.name, taint + "-")
        self.cluster.wait_for("the node to be ready", node.is_ready)
        self.uninstall()

    def test_an_upgrade_under_a_run_goes_on_from_its_newest_checkpoint(self):
        values = self.values()
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(150)
        former = {each[0] for each in self.workers()}
        at = self.step()
        self.upgrade(fleet.merged(values, {"workers": {"env": {"ANYTHING": "else"}}}))
        self.wait_for("other workers", lambda: former.isdisjoint({each[0] for each in self.workers()}) and len(self.workers()) == 2)
        self.wait_for("training to go on", lambda: self.step() > at + 50)
        self.assert_complete_and_undisturbed(values)
        self.uninstall()

    def certificates(self, *roles):
        """Of one authority, each in a Secret that is named after its role; the folder that holds them, too."""
        folder = self.work / "certificates"
        folder.mkdir()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl = functools.partial(self.cluster.run, "openssl")
        openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=fleet", "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
        for role in roles:
            own = folder / role
            own.mkdir()
            openssl("req", *key, "-subj", f"/CN={role}", "-keyout", own / "tls.key", "-out", own / "request")
            (own / "names").write_text(f"subjectAltName=DNS:zerofleet-{role}\n")
            openssl("x509", "-req", "-days", "2", "-in", own / "request", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
                    "-CAcreateserial", "-extfile", own / "names", "-out", own / "tls.crt")
            self.cluster.kubectl("create", "secret", "generic", role, "-n", NAMESPACE, f"--from-file=ca.crt={folder / 'ca.crt'}",
                                 f"--from-file={own / 'tls.crt'}", f"--from-file={own / 'tls.key'}")
        return folder

    def scraped(self, pod, folder, role, shown=None):
        """What that pod's metrics port answers to whoever shows this certificate, or none."""
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        if shown:
            context.load_cert_chain(folder / shown / "tls.crt", folder / shown / "tls.key")
        with self.connection(pod, 9400, role, context) as secure:
            secure.sendall(b"GET /metrics HTTP/1.1\r\nHost: zerofleet\r\n\r\n")
            return b"".join(iter(lambda: secure.recv(65536), b"")).decode()

    def test_under_tls_a_run_trains_and_its_metrics_are_for_prometheus(self):
        folder = self.certificates("coordinator", "worker", "scraper")
        token = f"--from-literal=token={os.urandom(16).hex()}"
        self.cluster.kubectl("create", "secret", "generic", "fleet-token", "-n", NAMESPACE, token)
        values = self.values(config={"steps": 3 * STEPS},  # long enough for a look at it
                             tls={"enabled": True, "coordinatorSecret": "coordinator", "workerSecret": "worker"},
                             auth={"existingSecret": "fleet-token"}, metrics={"tls": True})
        self.undisturbed(values)
        self.install(values)
        self.wait_until_step(10)
        for role, pod in (("coordinator", f"{NAME}-coordinator-0"), ("worker", self.workers()[0][2])):
            page = self.scraped(pod, folder, role, "scraper")
            self.assertTrue(page.startswith("HTTP/1.1 200 "), page[:200])
            self.assertIn(f"zerofleet_{role}_", page)
            self.assertTrue(self.scraped(pod, folder, role).startswith("HTTP/1.1 403 "))
        # By probes that kubelet has no certificate for.
        self.wait_for("ready workers", lambda: len(self.places()) == 2)
        self.helm("test", RELEASE, "--timeout", "3m")
        self.assert_complete_and_undisturbed(values)
        self.recoveries()
        self.uninstall()

    def test_an_uninstall_under_a_run_leaves_nothing(self):
        self.install(self.values())
        self.wait_until_step(10)
        self.uninstall()
        self.cluster.wait_for("no process of a pod", lambda: not any(node.containers() for node in self.cluster.nodes))


if __name__ == "__main__":
    release.main()
