#!/usr/bin/env python3
"""A fleet whose coordinator and workers are started by hand: what each prints, the report, who may join and stop it, how
many may connect, and how it answers a hang-up.
"""
import resource
import signal
import socket
import stat
import time
import urllib.error
import urllib.request

import fleet


class FleetByHand(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.token = self.work / "token"
        self.token.write_text("a-token-for-this-test-alone\n")
        self.token.chmod(stat.S_IRUSR | stat.S_IWUSR)

    def coordinator(self, config, *arguments, listen="127.0.0.1:0"):
        """A coordinator that listens, and its address."""
        process = self.start("coordinator", "--config", self.write_config(config), "--listen", listen, "--state-dir",
                             self.work / "state", *arguments)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line + (process.stderr.read() if not line else ""))
        return process, line.split()[-1].replace("0.0.0.0", "127.0.0.1")

    def worker(self, address, *arguments, env=None):
        return self.start("worker", "--coordinator", address, "--device", "cpu", "--threads", 1, *arguments, env=env)

    def finish(self, process):
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        return process.returncode, out, err

    def test_everybody_says_where_they_are_and_the_report_is_train_s(self):
        config = self.config(steps=12, data={"validation": [str(self.held_file)]}, evaluate={"every_steps": 6, "batches": 1})
        report, port = self.work / "hand.jsonl", fleet.free_port()
        coordinator, address = self.coordinator(config, "--report", report, "--token-file", self.token, "--metrics-port", port,
                                                "--metrics-linger", 60, "--run-name", "by-hand")
        stranger = self.finish(self.worker(address))
        self.assertEqual(stranger[0], 2, stranger)
        self.assertIn("refused this worker: this call needs a worker's token", stranger[2])
        workers = [self.worker(address, "--token-file", self.token) for _ in range(2)]
        ends = [self.finish(worker) for worker in workers]
        page = self.last_page(port)
        coordinator.send_signal(signal.SIGTERM)  # ends --metrics-linger
        code, out, err = self.finish(coordinator)
        self.assertEqual([end[0] for end in ends] + [code], [0, 0, 0], f"{ends}\n{err}")
        for line in ('zerofleet_coordinator_phase{phase="done"} 1', "zerofleet_coordinator_step 12",
                     "zerofleet_coordinator_target_steps 12", 'run="by-hand"', "zerofleet_coordinator_validation_loss "):
            self.assertIn(line, page)
        self.assertIn("step 12/12", err)
        self.assertIn("validation loss", out)
        for rank, (_, _, said) in enumerate(ends):
            self.assertIn(f"connected to the coordinator at {address}", said)
            self.assertRegex(said, "rank [01] of 2, ")
            self.assertIn("step 12/12", said)
        by_hand = fleet.Run(code, out, err, report)
        with_train = self.train(self.config(
            steps=12, data={"validation": [str(self.held_file)]}, evaluate={"every_steps": 6, "batches": 1},
            checkpoint={"dir": str(self.work / "other")}))
        self.assertIn("coordinator at 127.0.0.1:", with_train.err)
        self.assertEqual([each["event"] for each in by_hand.events], [each["event"] for each in with_train.events])
        self.assert_same_bits(with_train.column("loss"), by_hand.column("loss"), "by hand and with train")
        self.assert_nothing_left()

    def test_a_rank_that_computes_otherwise_is_refused_or_pinned(self):
        # oneDNN's limit on the instruction set makes this CPU look like an older one.
        coordinator, address = self.coordinator(self.config(steps=2))
        ends = [self.finish(worker) for worker in [self.worker(address), self.worker(address, env={"ONEDNN_MAX_CPU_ISA": "AVX"})]]
        code, _, err = self.finish(coordinator)
        self.assertNotIn(0, [code] + [end[0] for end in ends])
        refusal = (r"ranks differ in their oneDNN's instruction set: rank [01] \(host \S+, pid \d+\) has \S.*, "
                   r"rank [01] \(host \S+, pid \d+\) has \S.*; device_isa pins all ranks to the lesser one; agreement: warn goes on")
        for said in [err] + [end[2] for end in ends]:
            self.assertRegex(said, refusal)
        for setting, limit in {"device_isa": "sse4", "agreement": "warn"}.items():
            coordinator, address = self.coordinator(
                self.config(steps=2, **{setting: limit}, checkpoint={"dir": str(self.work / setting)}), "--resume", "none")
            ends = [self.finish(worker) for worker in [self.worker(address), self.worker(address, env={"ONEDNN_MAX_CPU_ISA": "AVX"})]]
            code, out, err = self.finish(coordinator)
            self.assertEqual([code] + [end[0] for end in ends], [0, 0, 0], f"{setting}: {ends}\n{err}")
            self.assertEqual("ranks differ" in err, setting == "agreement", err)
        self.assert_nothing_left()

    def last_page(self, port):
        """The coordinator's metrics once its run has ended."""
        deadline = time.monotonic() + 60
        page = ""
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                page = answer.read().decode()
            if 'zerofleet_coordinator_phase{phase="done"} 1' in page:
                return page
            time.sleep(0.1)
        return page

    def test_three_thousand_connections_leave_the_ports_serving(self):
        """Silent connections, from one address or many, do not keep workers and probes out."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 4096:
            self.skipTest("SKIPPED: 3,000 connections need a higher hard limit on open files")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # the coordinator gets this limit
        port = fleet.free_port()
        coordinator, address = self.coordinator(self.config(), "--metrics-port", port, "--metrics-linger", 60)
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
        held = [self.knock(int(address.split(":")[1]), f"127.0.{i // 250}.{2 + i % 250}" if i % 2 else "127.0.0.1")
                for i in range(3_000)] + [self.knock(port, "127.0.0.1") for _ in range(300)]
        self.addCleanup(lambda: [each.close() for each in held])
        workers = [self.worker(address) for _ in range(2)]
        for probe in range(20):
            self.await_alive(port)
        self.assertEqual([self.finish(worker)[0] for worker in workers], [0, 0])
        page = self.last_page(port)
        coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(coordinator)[0], 0)
        self.assertRegex(page, r'refused_clients_total\{.*cause="room".*\} [1-9]')

    def await_alive(self, port):
        """Probes until the coordinator says that it is alive: on a busy machine it may once hear from its own port too late."""
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
                    return self.assertEqual(answer.read(), b"alive\n")
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def knock(self, port, source):
        connection = socket.socket()
        connection.bind((source, 0))
        connection.connect(("127.0.0.1", port))
        return connection

    def test_an_open_port_is_warned_of_and_a_loose_token_refused(self):
        coordinator, _ = self.coordinator(self.config(), listen="0.0.0.0:0")
        second = self.run_command("coordinator", "--config", self.write_config(self.config()), "--listen", "0.0.0.0:0", "--state-dir",
                                  self.work / "other-state")
        self.assertEqual(second.code, 2, second.err)
        self.assertNotIn("listening", second.out + second.err, "the directory is the first one's")
        coordinator.send_signal(signal.SIGTERM)
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 143, err)
        self.assertIn("whoever reaches this port can join, watch and stop the run", err)
        self.token.chmod(0o644)
        loose = self.run_command("coordinator", "--config", self.write_config(self.config()), "--listen", "127.0.0.1:0",
                                 "--state-dir", self.work / "state", "--token-file", self.token)
        self.assertEqual(loose.code, 2)
        self.assertIn("mode 0644", loose.err)

    def test_a_hang_up_stops_the_run_with_a_checkpoint_and_nohup_keeps_it(self):
        config = self.config(steps=1_000_000)
        self.addCleanup(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        run = self.train_until(config, 5, signal.SIGHUP)
        self.assertEqual(run.code, 143, run.err[-2000:])
        self.assertIsNotNone(fleet.latest_checkpoint(self.work / "checkpoints"))
        ignoring = self.config(steps=300, checkpoint={"dir": str(self.work / "other")})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does for its child
        run = self.train_until(ignoring, 5, signal.SIGHUP)
        self.assertEqual(run.code, 0, run.err[-2000:])
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
