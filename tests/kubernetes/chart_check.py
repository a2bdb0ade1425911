#!/usr/bin/env python3
"""The chart and deploy/: every rendering is valid for Kubernetes 1.29 to 1.34 and admitted at the `restricted` level, wrong
values are refused, flags and metrics exist in the product, and what is made from something else is current. Rules and dashboards
are in monitoring.py.

Helm and kubernetes-validate (scripts/setup.sh kubernetes) do the rendering and the strict validation. Where they are missing the
tests that need them say so and are skipped, and the rendering in deploy/kubernetes stands in for the others. With --strict
nothing may be skipped.
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import update

ROOT, CHART = update.ROOT, update.CHART
VENV = ROOT / "build" / "kubernetes" / "venv" / "bin" / "python"
if VENV.exists() and pathlib.Path(sys.prefix) != VENV.parent.parent:
    os.execv(VENV, [str(VENV), *sys.argv])
try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = yaml = None
from monitoring import Monitoring, SkipsLoudly  # noqa: E402,F401  behind the exec, and for unittest to find

SKIPPED_SOME = 77  # the exit code that ctest takes for skipped; a failure is never hidden by it
RELEASES = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34")
# Of other controllers, whose schemas kubernetes-validate does not have; the product of their templates is looked at below.
FOREIGN = {"JobSet", "Certificate", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
RESTRICTED_VOLUMES = {"name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
                      "secret"}
BINARY = pathlib.Path(os.environ.get("ZEROFLEET", ROOT / "build" / "zerofleet"))

# (the values, what the refusal has to name): --set arguments, each wrong in one place.
WRONG_VALUES = [
    ("replicas=3", "replicas"),
    ("workers.count=3", "count"),
    ("config.model.haeds=3", "haeds"),
    ("config.parallel.workers=two", "/config/parallel/workers"),
    ("config.parallel.zero_stage=4", "/config/parallel/zero_stage"),
    ("config.device=tpu", "/config/device"),
    ("config.checkpoint.dir=/data/run", "config.checkpoint.dir"),
    ("workers.kind=Deployment", "/workers/kind"),
    ("workers.threads=0", "/workers/threads"),
    ("workers.sharedMemory=lots", "/workers/sharedMemory"),
    ("coordinator.port=70000", "/coordinator/port"),
    ("image.digest=latest", "/image/digest"),
    ("logLevel=loud", "/logLevel"),
    ("checkpoints.accessModes={ReadOnlyMany}", "/checkpoints/accessModes"),
    # The coordinator and the workers mount the claim.
    ("checkpoints.accessModes={ReadWriteOncePod}", "/checkpoints/accessModes"),
    ("tls.enabled=true", "tls.certManager.issuerName"),
    ("auth.operatorToken=true", "auth.existingSecret"),
    ("metrics.tls=true", "metrics.tls: needs tls.enabled"),
    ("coordinator.report=/tmp/report.jsonl", "/coordinator/report"),
    ("metrics.monitors.interval=often", "/metrics/monitors/interval"),
    ("workers.ranksPerPod=0", "/workers/ranksPerPod"),
    ("workers.ranksPerPod=3", "workers.ranksPerPod: must divide config.parallel.workers (2); got 3"),
    ("config.restart.spares=2,workers.ranksPerPod=2", "workers.ranksPerPod: must be 1 with config.restart.spares (2); got 2"),
    ("workers.ranksPerPod=2,metrics.port=65535", "metrics.port: must leave a port for each of 2 ranks of a pod"),
    ("workers.hostNetwork=true", "workers.hostNetwork: the network policy would keep the workers from the coordinator"),
    ("config.device=cuda", "config.device cuda needs a GPU for each rank of a pod (workers.ranksPerPod 1), as nvidia.com/gpu: 1; got 0"),
    (r"config.device=cuda,workers.ranksPerPod=2,workers.resources.limits.nvidia\.com/gpu=1", "as nvidia.com/gpu: 2; got 1"),
    ("workers.podAnnotations.a.b=c", "/workers/podAnnotations"),
    ("workers.hostNetwork=yes", "/workers/hostNetwork"),
    (r"workers.podLabels.app\.kubernetes\.io/component=coordinator",
     "workers.podLabels: app.kubernetes.io/component is set by the chart"),
    ("coordinator.podAnnotations.checksum/config=x", "coordinator.podAnnotations: checksum/config is set by the chart"),
    ("podDisruptionBudget.maxUnavailable=25%", "/podDisruptionBudget/maxUnavailable"),
    ("workers.resources.claims[0].name=gpu", "claims"),
    ("workers.extraVolumes[0].name=state", "workers.extraVolumes: state is the name of a volume"),
    ("workers.resources=null,config.device=cuda", "as nvidia.com/gpu: 1; got 0"),
]


def value_sets():
    return sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))


@functools.cache
def render_set(name, *arguments):
    return update.render("-f", str(CHART / "ci" / f"{name}-values.yaml"), *arguments)


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


def pod_templates(objects):
    """(name, pod spec) of everything that makes a pod."""
    for each in objects:
        name, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec", {})
        if each["kind"] == "Pod":
            yield name, spec
        elif each["kind"] == "JobSet":
            for job in spec["replicatedJobs"]:
                yield name, job["template"]["spec"]["template"]["spec"]
        elif each["kind"] == "ClusterTrainingRuntime":
            for job in spec["template"]["spec"]["replicatedJobs"]:
                yield name, job["template"]["spec"]["template"]["spec"]
        elif "template" in spec:
            yield name, spec["template"]["spec"]


def kubeflow():
    return documents((ROOT / "deploy" / "kubeflow" / "runtime.yaml").read_text())


class Chart(SkipsLoudly):
    def needs(self, helm=False, libraries=True):
        if libraries and kubernetes_validate is None:
            self.missing("kubernetes-validate is not there")
        if helm and update.helm() is None:
            self.missing("Helm is not there")

    def rendering(self, name, *arguments):
        rendered = render_set(name, *arguments)
        self.assertEqual(rendered.returncode, 0, f"{name}: {rendered.stderr}")
        return documents(rendered.stdout)

    def renderings(self):
        """Of each value set by Helm; without it, the committed one."""
        if update.helm() is None:
            print("SKIPPED: no Helm: only deploy/kubernetes/zerofleet.yaml is looked at", file=sys.stderr)
            return {"deploy/kubernetes": documents(update.MANIFEST.read_text())}
        return {name: self.rendering(name) for name in value_sets()}

    def of_kind(self, objects, kind):
        return [each for each in objects if each["kind"] == kind]

    # --- what Kubernetes takes

    def test_every_object_is_valid_in_every_release(self):
        self.needs()
        checked, seen = 0, set()
        for name, objects in self.renderings().items():
            for each in objects:
                text = json.dumps(each)
                if each["kind"] in FOREIGN or text in seen:
                    continue
                seen.add(text)
                for release in RELEASES:
                    try:
                        kubernetes_validate.validate(each, release, strict=True)
                    except kubernetes_validate.ValidationError as error:
                        self.fail(f"{name}: {each['kind']} {each['metadata']['name']} in {release}: "
                                  f"{list(error.path)}: {error.message}")
                    checked += 1
        self.assertGreaterEqual(checked, len(RELEASES) * 10)

    def test_every_pod_is_admitted_at_the_restricted_level(self):
        self.needs()
        for name, objects in {**self.renderings(), "deploy/kubeflow": kubeflow()}.items():
            pods = list(pod_templates(objects))
            self.assertGreaterEqual(len(pods), 2, name)
            for pod, spec in pods:
                self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), pod)
                self.assertFalse(spec["automountServiceAccountToken"], pod)
                self.assertTrue(spec["securityContext"]["runAsNonRoot"], pod)
                self.assertEqual(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", pod)
                for volume in spec.get("volumes", []):
                    self.assertLessEqual(volume.keys(), RESTRICTED_VOLUMES, f"{name}: {pod}")
                for container in spec["containers"] + spec.get("initContainers", []):
                    context = container["securityContext"]
                    self.assertFalse(context["allowPrivilegeEscalation"], pod)
                    self.assertTrue(context["readOnlyRootFilesystem"], pod)
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, pod)
                    self.assertIn("requests", container["resources"], pod)

    def test_the_job_does_what_recovery_needs(self):
        self.needs(helm=True)
        job = self.of_kind(self.rendering("spares"), "Job")[0]["spec"]
        self.assertEqual((job["completionMode"], job["completions"], job["parallelism"]), ("Indexed", 4, 4))
        self.assertEqual(job["template"]["spec"]["restartPolicy"], "Never")
        self.assertEqual(job["maxFailedIndexes"], 2)
        rules = {rule["action"]: rule for rule in job["podFailurePolicy"]["rules"]}
        failing = [rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
        self.assertEqual(failing, [{"containerName": name, "operator": "In", "values": [2, 3]} for name in ("check-config", "worker")])
        self.assertEqual(rules["Ignore"]["onPodConditions"], [{"type": "DisruptionTarget", "status": "True"}])
        losses = {each["key"]: each["tolerationSeconds"] for each in job["template"]["spec"]["tolerations"]}
        self.assertEqual(losses, {"node.kubernetes.io/not-ready": 20, "node.kubernetes.io/unreachable": 20})
        wrapped = self.of_kind(self.rendering("jobset"), "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]
        plain = self.of_kind(self.rendering("cpu"), "Job")[0]["spec"]
        for key in plain.keys() - {"template"}:
            self.assertEqual(wrapped[key], plain[key], key)

    def test_a_job_of_the_runtime_is_done_with_its_workers(self):
        self.needs()
        spec = kubeflow()[0]["spec"]["template"]["spec"]
        endless = {job["name"] for job in spec["replicatedJobs"]
                   for container in job["template"]["spec"]["template"]["spec"]["containers"]
                   if container["args"][0] == "coordinator" and "--supervised" in container["args"]}
        self.assertEqual(endless, {"coordinator"})
        self.assertEqual(set(spec["successPolicy"]["targetReplicatedJobs"]), {job["name"] for job in spec["replicatedJobs"]} - endless)

    def test_jobs_of_the_runtime_share_no_state(self):
        self.needs()
        for pod, spec in pod_templates(kubeflow()):
            for container in spec["containers"]:
                given = {each["name"] for each in container["env"]}
                for argument in container["args"]:
                    self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", argument)), given, f"{pod}: {argument}")
                    if argument.startswith(("--state-dir", "--run-name")):
                        self.assertIn("$(JOBSET_NAME)", argument)

    def test_an_upgrade_replaces_a_coordinator_that_is_not_ready(self):
        self.needs()
        for name, objects in self.renderings().items():
            self.assertEqual(self.of_kind(objects, "StatefulSet")[0]["spec"]["podManagementPolicy"], "Parallel", name)

    def test_a_pod_may_have_all_ranks_of_a_node(self):
        self.needs(helm=True)
        objects = self.rendering("node")
        job = self.of_kind(objects, "Job")[0]["spec"]
        self.assertEqual((job["completions"], job["parallelism"], job["maxFailedIndexes"]), (2, 2, 0))
        worker = job["template"]["spec"]["containers"][0]
        for wanted in ("--local=8", "--max-restarts=10", "--listen=0.0.0.0:0", "--supervised", "--node=$(NODE_NAME)"):
            self.assertIn(wanted, worker["args"])
        names = ["metrics"] + [f"metrics-{rank}" for rank in range(1, 8)]
        self.assertEqual([(port["name"], port["containerPort"]) for port in worker["ports"]], list(zip(names, range(9400, 9408))))
        endpoints = self.of_kind(objects, "PodMonitor")[0]["spec"]["podMetricsEndpoints"]
        self.assertEqual([each["port"] for each in endpoints], names)
        admitted = [port["port"] for policy in self.of_kind(objects, "NetworkPolicy") for rule in policy["spec"]["ingress"]
                    for port in rule.get("ports", [])]
        self.assertLessEqual(set(names), set(admitted))
        self.assertEqual(self.of_kind(objects, "PodDisruptionBudget")[0]["spec"]["minAvailable"], 1)
        service = [each for each in self.of_kind(objects, "Service") if each["metadata"]["name"].endswith("-workers")][0]
        self.assertEqual([port["name"] for port in service["spec"]["ports"]], ["metrics"])
        bare = self.of_kind(self.rendering("node", "--set", "config.restart.max_per_rank=null,containerSecurityContext=null"), "Job")[0]
        self.assertIn("--local=8", bare["spec"]["template"]["spec"]["containers"][0]["args"])
        self.assertFalse([each for each in bare["spec"]["template"]["spec"]["containers"][0]["args"] if each.startswith("--max-restarts")])
        never = self.of_kind(self.rendering("node", "--set", "config.restart.max_per_rank=0"), "Job")[0]
        self.assertIn("--max-restarts=0", never["spec"]["template"]["spec"]["containers"][0]["args"])
        alone = self.of_kind(self.rendering("gpu"), "Job")[0]["spec"]["template"]["spec"]["containers"][0]
        self.assertFalse([argument for argument in alone["args"] if argument.startswith(("--local", "--max-restarts"))])

    def test_pods_take_what_a_platform_asks_for(self):
        self.needs(helm=True)
        rdma = self.of_kind(self.rendering("rdma"), "Job")[0]["spec"]["template"]
        self.assertEqual(rdma["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], "rdma-net")
        self.assertEqual(rdma["metadata"]["labels"]["sriov"], "yes")
        self.assertIn("POD_IP", [each["name"] for each in rdma["spec"]["containers"][0]["env"]])
        objects = self.rendering("sidecar")
        for pod, spec in pod_templates(objects):
            self.assertEqual(spec["serviceAccountName"], "trainer", pod)
            self.assertFalse({"runAsUser", "runAsGroup", "fsGroup"} & spec["securityContext"].keys(), pod)
        worker = self.of_kind(objects, "Job")[0]["spec"]["template"]["spec"]
        self.assertEqual([each["name"] for each in worker["initContainers"]], ["check-config", "fetch"])
        self.assertEqual([each["name"] for each in worker["containers"]], ["worker", "watch"])
        coordinator = self.of_kind(objects, "StatefulSet")[0]["spec"]["template"]["metadata"]
        self.assertEqual((coordinator["annotations"]["sidecar.istio.io/inject"], coordinator["labels"]["team"]), ("false", "language"))
        privileged = self.of_kind(self.rendering("cpu", "--set", "networkPolicy.enabled=false,workers.hostNetwork=true,"
                                                           "workers.securityContext.readOnlyRootFilesystem=false,"
                                                           "workers.securityContext.capabilities.add={IPC_LOCK}"),
                                  "Job")[0]["spec"]["template"]["spec"]
        self.assertEqual((privileged["hostNetwork"], privileged["dnsPolicy"]), (True, "ClusterFirstWithHostNet"))
        context = privileged["containers"][0]["securityContext"]
        self.assertEqual(context["capabilities"], {"drop": ["ALL"], "add": ["IPC_LOCK"]})
        self.assertIs(context["readOnlyRootFilesystem"], False)
        self.assertEqual(privileged["initContainers"][0]["securityContext"]["capabilities"], {"drop": ["ALL"]})

    def test_whoever_reads_the_configuration_has_its_files(self):
        """data.tokenizer, init_from and epochs: what `plan` and the coordinator find in their place is what the workers find."""
        self.needs(helm=True)
        own = {"/dev/shm", "/tmp", "/etc/zerofleet/auth", "/etc/zerofleet/tls"}
        for name, objects in {**{name: self.rendering(name) for name in value_sets()}, "deploy/kubeflow": kubeflow()}.items():
            containers = {each["name"]: each for _, spec in pod_templates(objects) for each in spec["containers"] + spec.get("initContainers", [])}
            mounts = {role: {mount["mountPath"]: mount for mount in each.get("volumeMounts", [])} for role, each in containers.items()}
            files = mounts["node" if name == "deploy/kubeflow" else "worker"].keys() - own
            self.assertIn("/data" if name in ("existing-claims", "placed", "deploy/kubeflow") else "/checkpoints", files, name)
            for role in {"coordinator", "check-config"} & mounts.keys():
                self.assertLessEqual(files, mounts[role].keys(), f"{name}: {role}")
                written = {path for path in files if not mounts[role][path].get("readOnly")}
                self.assertEqual(written, {"/checkpoints"} if role == "coordinator" else set(), f"{name}: {role}")

    def test_the_model_is_the_users(self):
        """The default is nobody's who says another model: not in parts either."""
        self.needs(helm=True)
        for setting, wanted in (("config.steps=7", {"preset": "gpt2-tiny"}), ("config.init_from=/checkpoints/first/step-00000100", None),
                                ("config.init_from=/checkpoints/a,config.model.lora.rank=8", {"lora": {"rank": 8}}),
                                ("config.model.torch=task:train", {"torch": "task:train"}),
                                ("config.model.family=llama,config.model.layers=2", {"family": "llama", "layers": 2})):
            config = self.of_kind(self.rendering("cpu", "--set", setting), "ConfigMap")[0]["data"]["run.yaml"]
            self.assertEqual(yaml.safe_load(config).get("model"), wanted, setting)

    def test_other_values_make_another_job(self):
        self.needs(helm=True)
        def name(*arguments):
            return self.of_kind(self.rendering("cpu", *arguments), "Job")[0]["metadata"]["name"]
        self.assertEqual(name(), name())
        self.assertNotEqual(name("--set", "tls.enabled=true,tls.certManager.issuerName=i"),
                            name("--set", "tls.enabled=true,tls.certManager.issuerName=i,metrics.tls=true"))
        for change in ("config.steps=7", "workers.threads=2", "image.tag=other", "metrics.port=9500", "auth.existingSecret=s"):
            self.assertNotEqual(name("--set", change), name(), change)
        self.assertEqual(name("--set", "coordinator.state.size=1Gi"), name())

    def test_services_and_workers_meet(self):
        """The names in the workers' arguments are those of the services that select the pods they are meant for."""
        self.needs()
        for name, objects in self.renderings().items():
            services = {each["metadata"]["name"]: each["spec"] for each in self.of_kind(objects, "Service")}
            for service in services.values():
                self.assertEqual(service["clusterIP"], "None")
                self.assertTrue(service["publishNotReadyAddresses"])
            for pod, spec in pod_templates(objects):
                for container in spec["containers"]:
                    arguments = " ".join(container.get("args", []))
                    if "--coordinator=" not in arguments:
                        continue
                    called = re.search(r"--coordinator=([^.]+)\.\$\(POD_NAMESPACE\)\.svc:(\d+)", arguments)
                    self.assertIn({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, container["env"])
                    service = services[called.group(1)]
                    self.assertEqual(service["selector"]["app.kubernetes.io/component"], "coordinator", f"{name}: {pod}")
                    self.assertIn(int(called.group(2)), [port["port"] for port in service["ports"]])
                if "subdomain" in spec:
                    self.assertEqual(services[spec["subdomain"]]["selector"]["app.kubernetes.io/component"], "worker")

    def test_an_overlay_may_name_another_namespace(self):
        self.needs(helm=True)
        for name in value_sets():
            elsewhere, here = self.rendering(name, "--namespace", "elsewhere"), self.rendering(name)
            if name != "priority":
                self.assertEqual(elsewhere, here, name)
                continue
            # The cluster's objects have no namespace, and a name for each.
            classes = [self.of_kind(objects, "PriorityClass")[0]["metadata"]["name"] for objects in (elsewhere, here)]
            self.assertEqual(classes, ["fleet.elsewhere", "fleet.default"])
            for pod, spec in pod_templates(elsewhere):
                self.assertEqual(spec["priorityClassName"], classes[0], pod)

    def test_what_was_asked_for_is_there(self):
        """One object of each switch, and nothing where it is off."""
        self.needs(helm=True)
        base = {each["kind"] for each in self.rendering("cpu")}
        for name, wanted in (("tls-cert-manager", "Certificate"), ("observed", "ServiceMonitor"), ("observed", "PodMonitor"),
                             ("observed", "PrometheusRule"), ("priority", "PriorityClass"), ("jobset", "JobSet")):
            self.assertTrue(self.of_kind(self.rendering(name), wanted), f"{name}: no {wanted}")
            self.assertNotIn(wanted, base)
        self.assertFalse({"NetworkPolicy", "PodDisruptionBudget"} & {each["kind"] for each in self.rendering("open")})
        budget = self.of_kind(self.rendering("cpu", "--set", "config.parallel.workers=5,config.restart.spares=1,"
                                                             "podDisruptionBudget.maxUnavailable=2"), "PodDisruptionBudget")[0]
        self.assertEqual(budget["spec"].get("minAvailable"), 3, "of those that train: a spare is not ready")
        self.assertFalse(self.of_kind(self.rendering("existing-claims"), "PersistentVolumeClaim"))
        kueue = self.of_kind(self.rendering("kueue"), "Job")[0]
        self.assertTrue(kueue["spec"]["suspend"])
        self.assertEqual(kueue["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "training")
        rules = self.of_kind(self.rendering("observed"), "PrometheusRule")[0]["spec"]["groups"]
        urls = [rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"] if "alert" in rule]
        self.assertTrue(urls and all(url.startswith("https://wiki.example/zerofleet/") for url in urls), urls)
        dashboards = [each for each in self.of_kind(self.rendering("observed"), "ConfigMap") if "dashboards" in each["metadata"]["name"]]
        self.assertEqual(len(dashboards[0]["data"]), len(list((ROOT / "deploy" / "grafana").glob("*.json"))))
        for text in dashboards[0]["data"].values():
            json.loads(text)
        for name in ("tls-secrets", "tls-cert-manager", "auth"):
            for pod, spec in pod_templates(self.rendering(name)):
                mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
                self.assertIn("auth" if name == "auth" else "tls", mounted, f"{name}: {pod}")
                self.assertLessEqual(mounted, {volume["name"] for volume in spec["volumes"]} | {"state"}, f"{name}: {pod}")

    def test_metrics_under_tls_are_scraped_and_probed_so(self):
        self.needs(helm=True)
        objects = self.rendering("metrics-tls")
        served = {container["name"]: container for _, spec in pod_templates(objects) for container in spec["containers"]}
        for name in ("coordinator", "worker"):
            self.assertIn("--metrics-tls", served[name]["args"])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertEqual(served[name][probe]["httpGet"]["scheme"], "HTTPS", f"{name}: {probe}")
        endpoints = [self.of_kind(objects, "ServiceMonitor")[0]["spec"]["endpoints"],
                     self.of_kind(objects, "PodMonitor")[0]["spec"]["podMetricsEndpoints"]]
        certificates = {each["spec"]["secretName"]: each["spec"]["dnsNames"] for each in self.of_kind(objects, "Certificate")}
        shown = {"zerofleet-coordinator", "zerofleet-worker"}
        for (endpoint,), server in zip(endpoints, sorted(shown)):
            self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"]["serverName"]), ("https", server))
            secrets = {endpoint["tlsConfig"]["ca"]["secret"]["name"], endpoint["tlsConfig"]["cert"]["secret"]["name"],
                       endpoint["tlsConfig"]["keySecret"]["name"]}
            self.assertEqual(len(secrets), 1)
            # Whoever scrapes has no right to join or to stop the run.
            self.assertEqual(certificates[secrets.pop()], ["zerofleet-scraper"])
        self.assertEqual(self.of_kind(objects, "NetworkPolicy"), self.of_kind(self.rendering("cpu"), "NetworkPolicy"))

    # --- what people may write

    def test_a_jobset_has_pods_with_names_that_it_may_have(self):
        self.needs(helm=True)
        for workers, longest in ((2, 36), (100, 35)):
            arguments = ("--set", f"config.parallel.workers={workers},fullnameOverride=")
            objects = self.rendering("jobset", *arguments[:-1], arguments[-1] + "n" * longest)
            job = self.of_kind(objects, "JobSet")[0]
            pod = f"{job['metadata']['name']}-{job['spec']['replicatedJobs'][0]['name']}-0-{workers - 1}-abcde"
            self.assertEqual(len(pod), 63)
            refused = render_set("jobset", *arguments[:-1], arguments[-1] + "n" * (longest + 1))
            self.assertIn("workers.kind: the pods of a JobSet would have names of up to 64 characters, of which 63 are allowed; set "
                          f"fullnameOverride to at most {longest} characters, instead of nnn", refused.stderr)
        refused = update.render("--set", "workers.kind=JobSet", release="a" * 40)
        self.assertIn("set fullnameOverride to at most 36 characters, instead of aaa", refused.stderr)
        self.assertEqual(update.render("--set", "workers.kind=Job,config.parallel.workers=10000", release="a" * 40).returncode, 0)

    def test_wrong_values_are_refused(self):
        self.needs(helm=True, libraries=False)
        for setting, named in WRONG_VALUES:
            flag = "--set-string" if setting in ("config.device=tpu", "image.digest=latest") else "--set"
            refused = update.render(flag, setting)
            self.assertNotEqual(refused.returncode, 0, f"{setting} is taken")
            self.assertIn(named, refused.stderr.replace("'", "/").replace(".", "/") + refused.stderr, setting)

    def test_every_value_is_documented_and_in_the_schema(self):
        schema = json.loads(update.SCHEMA.read_text())
        for path, _, comment in update.values():
            self.assertTrue(comment, f"values.yaml: {path} has no comment that begins with '# -- '")
            node = schema
            for key in path.split("."):
                self.assertIn(key, node["properties"], f"{path} is not in values.schema.json")
                node = node["properties"][key]

    def test_every_value_is_used(self):
        templates = "".join(path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file())
        for path, _, _ in update.values():
            if path.startswith("config."):
                continue  # all of it is the run's configuration
            last = path.split(".")[-1]
            self.assertRegex(templates, rf"\.{last}\b", f"no template uses {path}")

    def test_what_is_made_is_current(self):
        self.assertEqual(update.SCHEMA.read_text(), update.schema(), "values.schema.json: run tests/kubernetes/update.py")
        checked = subprocess.run([sys.executable, str(ROOT / "deploy" / "grafana" / "dashboards.py"), "--check"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_readme_is_of_these_values(self):
        if update.tool("helm-docs") is None:
            self.missing("helm-docs is not there")
        self.assertEqual(update.README.read_text(), update.readme(), "README.md: run tests/kubernetes/update.py")

    def test_the_charts_own_tests_pass(self):
        if update.tool("helm-unittest") is None:
            self.missing("helm-unittest is not there")
        ran = subprocess.run([update.tool("helm-unittest"), "--strict", str(CHART)], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertGreaterEqual(int(re.search(r"Tests: +(\d+) passed, \1 total", ran.stdout).group(1)), 20)

    def test_the_manifest_is_the_charts(self):
        self.needs(helm=True, libraries=False)
        self.assertEqual(update.MANIFEST.read_text(), update.manifest(), "run tests/kubernetes/update.py")

    # --- what the image has

    def test_the_image_is_as_the_chart_needs_it(self):
        dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
        values = (CHART / "values.yaml").read_text()
        version = re.search(r"project\(zerofleet VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        user = [re.search(rf"(?m)^  {key}: (\d+)$", values).group(1) for key in ("runAsUser", "runAsGroup")]
        ports = re.findall(r"(?m)^  port: (\d+)$", values)
        self.assertEqual(len(ports), 3)
        rootfs = (ROOT / "docker" / "rootfs.py").read_text()
        self.assertIn(f"USER = {user[0]} ", rootfs)
        self.assertIn('FOLDER = "var/lib/zerofleet" ', rootfs)
        for image in dockerfile.split("\nFROM ")[2:]:
            self.assertEqual(re.findall(r"(?m)^USER (.*)$", image), [":".join(user)])
            self.assertEqual(re.findall(r"(?m)^ENTRYPOINT (.*)$", image), ['["/opt/zerofleet/bin/zerofleet"]'])
            self.assertEqual(re.findall(r"(?m)^WORKDIR (.*)$", image), ["/var/lib/zerofleet"])
            # What a chart's pod mounts is not in its way, and `kubectl exec POD -- zerofleet` finds it.
            self.assertRegex(image, r"(?m)^ENV PATH=/opt/zerofleet/bin\b")
        runtime = dockerfile.split("\nFROM ")[-1]
        self.assertTrue(runtime.startswith("scratch AS runtime\n"), "the last stage is what is built when none is named")
        self.assertEqual(sorted(re.search(r"(?m)^EXPOSE (.*)$", runtime).group(1).split()), sorted(ports))
        self.assertEqual(re.search(r"(?m)^ARG VERSION=(.*)$", runtime).group(1), version)
        chart = (CHART / "Chart.yaml").read_text()
        self.assertIn(f"\nappVersion: {version}\n", chart)
        self.assertRegex(values, r"(?m)^  repository: zerofleet$")
        self.assertIn("image=${IMAGE:-zerofleet:$version$suffix}", (ROOT / "scripts" / "image.sh").read_text())

    # --- what the product has

    def test_the_product_has_every_flag(self):
        self.needs()
        if not BINARY.exists():
            self.missing(f"{BINARY} is not built")
        flags = {}
        for name, objects in {**self.renderings(), "deploy/kubeflow": kubeflow()}.items():
            for _, spec in pod_templates(objects):
                for container in spec["containers"] + spec.get("initContainers", []):
                    if "args" not in container:
                        continue  # another image
                    command = container["args"][0]
                    for argument in container["args"][1:]:
                        if argument.startswith("--"):
                            flags.setdefault(command, {})[argument.split("=")[0]] = name
        for path in [*(ROOT / "deploy" / "systemd").glob("*.service"), *(ROOT / "deploy" / "slurm").glob("*.sbatch")]:
            for command, rest in re.findall(r"zerofleet\"? (coordinator|worker) ((?:\\\n|[^\n&])*)", path.read_text()):
                flags.setdefault(command, {}).update((flag, path.name) for flag in re.findall(r"(?<= )--[a-z-]+", rest))
        self.assertGreaterEqual(flags.keys(), {"coordinator", "worker", "status"})
        self.assertIn("--local-rank", flags["worker"])
        self.assertIn("--report", flags["coordinator"])
        for command, used in flags.items():
            known = subprocess.run([str(BINARY), command, "--help"], capture_output=True, text=True, check=True).stdout
            for flag, name in used.items():
                self.assertRegex(known, rf"(?m)^  {flag}\b", f"{name}: zerofleet {command} has no {flag}")

    def test_the_products_plan_takes_the_configuration(self):
        """What the init container runs: a good configuration passes, a bad one ends with the code that fails the Job."""
        self.needs()
        if not BINARY.exists():
            self.missing(f"{BINARY} is not built")
        config, example = (self.of_kind(documents(path.read_text()), "ConfigMap")[0]["data"]["run.yaml"]
                           for path in (update.MANIFEST, ROOT / "deploy" / "kubeflow" / "trainjob.yaml"))
        for text, code in ((config, 0), (example, 0), (config.replace("workers: 2", "workers: 3"), 2)):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                plan = subprocess.run([str(BINARY), "plan", file.name], capture_output=True, text=True, check=False)
            self.assertEqual(plan.returncode, code, plan.stderr)


if __name__ == "__main__":
    result = unittest.main(argv=[argument for argument in sys.argv if argument != "--strict"], verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED_SOME if result.skipped or update.helm() is None else 0)
