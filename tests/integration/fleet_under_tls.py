#!/usr/bin/env python3
"""A fleet under mutual TLS: who is refused, logged and counted; and every certificate exchanged while it trains."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import fleet

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
SETTLE_SECONDS = 3  # processes check the files every second


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class FleetUnderTls(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        if shutil.which("openssl") is None:
            self.skipTest("SKIPPED: no openssl to make certificates with")
        for authority in ("old", "new"):
            openssl("req", "-x509", *NEW_KEY, "-days", 2, "-subj", f"/CN={authority}", "-keyout", self.work / f"{authority}.key",
                    "-out", self.work / f"{authority}.crt")
        self.token = self.work / "token"
        self.token.write_text("a-token-for-this-test-alone\n")
        self.token.chmod(0o600)

    def certificate(self, folder, role, authority="old", name=None, days=2):
        """Writes <folder>/ca.crt, tls.crt and tls.key for a role, laid out like a mounted Secret; returns the flags that name them."""
        folder = self.work / folder
        folder.mkdir(exist_ok=True)
        request, names = folder / "request", folder / "names"
        openssl("req", *NEW_KEY, "-subj", f"/CN={role}", "-keyout", folder / "tls.key", "-out", request)
        names.write_text(f"subjectAltName=DNS:{name or 'zerofleet-' + role}\n")
        openssl("x509", "-req", "-days", days, "-in", request, "-CA", self.work / f"{authority}.crt", "-CAkey",
                self.work / f"{authority}.key", "-CAcreateserial", "-extfile", names, "-out", folder / "tls.crt")
        shutil.copy(self.work / "old.crt", folder / "ca.crt")
        return self.flags(folder)

    @staticmethod
    def flags(folder):
        flags = ["--tls-ca", folder / "ca.crt", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key"]
        return flags + (["--tls-server-name", "zerofleet-coordinator"] if folder.name != "coordinator" else [])

    def coordinator(self, config, *arguments, listen="127.0.0.1:0"):
        process = self.start("coordinator", "--config", self.write_config(config), "--listen", listen, "--state-dir",
                             self.work / "state", "--quiet", *arguments)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line + (process.stderr.read() if not line else ""))
        return process, line.split()[-1]

    def worker(self, address, *arguments):
        return self.start("worker", "--coordinator", address, "--device", "cpu", "--threads", 1, "--quiet", *arguments)

    def finish(self, process):
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        return process.returncode, out, err

    @staticmethod
    def get(port, page, folder=None):
        """A page of the metrics port, read under TLS with the certificate in a folder."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if folder:
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        return urllib.request.urlopen(f"https://127.0.0.1:{port}/{page}", timeout=30, context=context).read().decode()

    def test_whoever_lacks_what_is_asked_for_is_refused_logged_and_counted(self):
        port = fleet.free_port()
        coordinator, address = self.coordinator(
            self.config(), "--metrics-port", port, "--metrics-tls", "--token-file", self.token, "--log-level", "warning",
            *self.certificate("coordinator", "coordinator"))
        mine, token = self.certificate("mine", "worker"), ["--token-file", self.token]
        other = self.work / "other-token"
        other.write_text("the-token-of-another-fleet\n")
        other.chmod(0o600)
        self.assertEqual(self.run_command("status", "--coordinator", address, *mine).code, 0)
        with self.assertRaises(urllib.error.HTTPError) as nobody:
            self.get(port, "metrics")
        self.assertEqual(nobody.exception.code, 403)
        with self.assertRaises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30)
        self.assertEqual(self.get(port, "healthz"), "alive\n")

        status = {"no certificate": [*mine[:2], *mine[6:]],
                  "another authority": self.certificate("theirs", "worker", authority="new"),
                  "expired": self.certificate("expired", "worker", days=-1)}
        worker = {"another's certificate": [*self.certificate("elsewhere", "worker", name="zerofleet-elsewhere"), *token],
                  "wrong token": [*mine, "--token-file", other], "no token": mine}
        asked = {what: self.start("status", "--coordinator", address, *flags) for what, flags in status.items()}
        asked |= {what: self.worker(address, *flags) for what, flags in worker.items()}
        for what, process in asked.items():
            code, _, err = self.finish(process)
            self.assertEqual(code, 2 if what in worker else 4, f"{what}: {err}")
        page = self.get(port, "metrics", self.work / "mine")
        coordinator.send_signal(signal.SIGTERM)
        _, _, err = self.finish(coordinator)

        lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        refused = [line["message"] for line in lines if line["level"] == "warning"]
        for reason in ("it has shown no certificate", "unable to get local issuer certificate", "certificate has expired",
                       "this call needs a worker's certificate: one with the alternative name zerofleet-worker; the one shown "
                       "has zerofleet-elsewhere", "a reader of metrics at 127.0.0.1: it has shown no certificate", "http request", "the token shown is not this fleet's", "and none came with it"):
            self.assertTrue(any(reason in line for line in refused), f"{reason}: not in {refused}")
        self.assertNotIn("a-token-for-this-test", err)
        self.assertNotIn("the-token-of-another", err)
        counted = {cause: float(count) for cause, count in
                   re.findall(r'zerofleet_coordinator_refused_clients_total\{cause="(\w+)"\} (\S+)', page)}
        self.assertEqual((counted["role"], counted["token"], counted["handshake"]), (1, 2, 1))
        self.assertGreaterEqual(counted["certificate"], 4)  # a client that cannot connect tries again
        self.assert_nothing_left()

    def presented(self, port):
        """The certificate that a server presents, in DER."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as plain, context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)

    def steps(self, report):
        return [each["step"] for each in fleet.Run(0, "", "", report).of("step")]

    def wait_for(self, what, condition):
        deadline = time.monotonic() + fleet.RUN_SECONDS / 4
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.1)  # polls real processes at intervals

    def test_every_certificate_is_exchanged_while_it_trains(self):
        # Each snapshot makes a connection from worker to worker.
        config = self.config(steps=1_000_000, checkpoint={"every_steps": 0, "snapshot_every_steps": 20, "replicate": 1})
        report, first = self.work / "report.jsonl", fleet.free_port(3)
        ports, roles = range(first, first + 3), ("coordinator", "worker-0", "worker-1")
        live = {role: self.certificate(role, role.split("-")[0]) for role in roles}
        former = self.certificate("former", "operator")
        arguments = ["--report", report, *live["coordinator"]]
        coordinator, address = self.coordinator(config, *arguments, listen=f"127.0.0.1:{ports[0]}")
        workers = [self.worker(address, "--listen", f"127.0.0.1:{port}", *live[role]) for port, role in zip(ports[1:], roles[1:])]
        self.wait_for("no step", lambda: report.exists() and len(self.steps(report)) > 20)

        def exchange(make):
            """Replaces each role's files by those that `make` writes into a folder, all at once, as kubelet does."""
            for role in roles:
                shutil.copytree(self.work / role, self.work / "next")
                make(self.work / "next", role)
                for name in ("ca.crt", "tls.crt", "tls.key"):
                    os.replace(self.work / "next" / name, self.work / role / name)
                shutil.rmtree(self.work / "next")

        both = (self.work / "old.crt").read_text() + (self.work / "new.crt").read_text()
        exchange(lambda folder, _: (folder / "ca.crt").write_text(both))
        time.sleep(SETTLE_SECONDS)  # nothing shows which authorities a client trusts
        before = [self.presented(port) for port in ports]

        def renewed(folder, role):
            self.certificate(folder, role.split("-")[0], authority="new")
            (folder / "ca.crt").write_text(both)
        exchange(renewed)
        self.wait_for("an old certificate is still shown",
                      lambda: all(self.presented(port) != old for port, old in zip(ports, before)))
        exchange(lambda folder, _: shutil.copy(self.work / "new.crt", folder / "ca.crt"))
        shutil.copy(self.work / "new.crt", self.work / "former" / "ca.crt")  # it still presents the old authority's certificate
        self.wait_for("the old authority's certificate is still accepted",
                      lambda: self.run_command("status", "--coordinator", address, *former).code != 0)

        # Now each worker connects again, which needs the new files on both sides.
        coordinator.kill()
        coordinator.communicate()
        coordinator, _ = self.coordinator(config, *arguments, listen=address)
        reached = len(self.steps(report)) + 100
        self.wait_for("no steps with the new certificates", lambda: len(self.steps(report)) > reached)
        coordinator.send_signal(signal.SIGTERM)
        code, out, err = self.finish(coordinator)
        self.assertEqual(code, 143, err)
        for worker in workers:
            _, _, said = self.finish(worker)
            self.assertNotIn("without its copies", said)
        run = fleet.Run(code, out, err, report)
        self.assertEqual(run.of("recovery"), [])
        self.assertEqual({each["generation"] for each in run.of("step")}, {1})
        steps = [each["step"] for each in run.of("step")]  # the newest steps are reported to the second coordinator once more
        self.assertEqual(sorted(set(steps)), list(range(1, max(steps) + 1)))
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
