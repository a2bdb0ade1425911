#!/usr/bin/env python3
"""Bad input: one line that says what is wrong, the right exit code, no process left behind, nothing overwritten."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

import fleet

USAGE, DATA, FLEET = 2, 3, 4


class BadInput(fleet.FleetTest):
    def assert_refused(self, run, code, *words):
        self.assertEqual(run.code, code, f"stderr: {run.err[-2000:]}")
        errors = run.error_lines()
        self.assertEqual(len(errors), 1, f"not one line for the error: {run.err[-2000:]}")
        for word in words:
            self.assertIn(word.lower(), errors[0].lower())
        self.assertNotRegex(run.err, r"(?i)stack trace|terminate called|\bat 0x[0-9a-f]+|Traceback|Check failed")
        self.assert_nothing_left()

    def assert_one_line(self, run, code, *words):
        self.assert_refused(run, code, *words)
        self.assertEqual(len([line for line in run.err.splitlines() if line.strip()]), 1, f"more than one line: {run.err}")
        self.assertEqual(run.out, "")

    def refused_before_start(self, config, *words, code=USAGE, arguments=()):
        run = self.train_anyhow(config, *arguments)
        self.assert_one_line(run, code, *words)
        self.assertEqual(run.of("step"), [])

    # --- usage and configuration

    def test_unknown_key(self):
        self.refused_before_start(self.config(batch={"global_sequence": 4}), "batch.global_sequence", "global_sequences")

    def test_wrong_type(self):
        self.refused_before_start(self.config(steps="many"), "steps", "many")

    def test_impossible_value(self):
        self.refused_before_start(self.config(parallel={"zero_stage": 4}), "parallel.zero_stage")

    def test_not_yaml(self):
        path = self.work / "broken.yaml"
        path.write_text("model: [1, 2\nsteps: }")
        self.assert_one_line(self.run_command("train", path), USAGE, "broken.yaml")

    def test_missing_configuration(self):
        self.assert_one_line(self.run_command("train", self.work / "none.yaml"), USAGE, "none.yaml")

    def test_world_size_does_not_divide_the_batch(self):
        self.refused_before_start(self.config(batch={"global_sequences": 10}, parallel={"workers": 4}),
                                  "batch.global_sequences")

    def test_heads_do_not_divide_hidden(self):
        self.refused_before_start(self.config(model={"heads": 5}), "model.heads", "hidden")

    def test_cuda_without_cuda(self):
        self.refused_before_start(self.config(), "cuda", arguments=("--device", "cuda"))
        # The error is reported before the worker connects to anything.
        worker = self.run_command("worker", "--coordinator", "127.0.0.1:1", "--device", "cuda", timeout=20)
        self.assert_one_line(worker, USAGE, "cuda")

    def test_unknown_flag_and_command(self):
        self.assertEqual(self.run_command("train", "--no-such-flag").code, USAGE)
        self.assertEqual(self.run_command("trian").code, USAGE)

    # --- the launcher

    def test_a_report_without_a_reader(self):
        fifo = self.work / "fifo"
        os.mkfifo(fifo)
        run = self.run_command("train", self.write_config(self.config()), "--report", fifo, timeout=30)
        self.assert_one_line(run, USAGE, "--report", "fifo", "reader")

    def test_a_report_over_the_configuration(self):
        config = self.write_config(self.config())
        text = config.read_text()
        self.assert_one_line(self.run_command("train", config, "--report", config, timeout=30), USAGE, "--report")
        traces = ("--trace-steps", "1", "--trace")
        self.assert_one_line(self.run_command("train", config, *traces, config, timeout=30), USAGE, "--trace", "configuration")
        self.assertEqual(config.read_text(), text)
        report = self.work / "both.jsonl"
        run = self.run_command("train", config, "--report", report, *traces, report, timeout=30)
        self.assert_one_line(run, USAGE, "--trace", "--report")

    def test_room_for_too_few_processes(self):
        if os.geteuid() != 0 and self.processes() > 20:
            self.skipTest("SKIPPED: the limit counts this user's other processes too")
        if os.geteuid() == 0 and not os.access("/proc/self/exe", os.X_OK):
            self.skipTest("SKIPPED: no way to be another user")
        self.work.chmod(0o777)

        def as_a_guest():
            resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresuid(64123, 64123, 64123)

        config = self.write_config(self.config())
        config.chmod(0o644)
        if os.geteuid() == 0 and subprocess.run([fleet.BINARY, "--version"], preexec_fn=as_a_guest,
                                                capture_output=True).returncode != 0:
            self.skipTest("SKIPPED: another user cannot run the binary where it is")
        # `bench step` runs a fleet, too.
        for command in (("train", config), ("bench", "step", "--steps", 1, "--preset", "gpt2-char")):
            process = self.start(*command, preexec_fn=as_a_guest)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, DATA, err[-2000:])
            self.assertRegex(err, r"^zerofleet: only \d+ threads can be started[^\n]*ulimit -u[^\n]*\n$")
        self.assert_nothing_left()

    def test_too_few_addresses(self):
        """With too little address space libraries fail, each in its own way."""
        def in_little_room():
            resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20))

        process = self.start("train", self.write_config(self.config()), preexec_fn=in_little_room)
        _, err = process.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(process.returncode, DATA, err[-2000:])
        self.assertRegex(err, r"^zerofleet: a process may take 800.0 MiB of addresses[^\n]*ulimit -v[^\n]*\n$")
        self.assert_nothing_left()

    def processes(self):
        return len([entry for entry in os.listdir("/proc") if entry.isdigit() and
                    os.stat(f"/proc/{entry}").st_uid == os.geteuid()])

    def test_closed_descriptors(self):
        config = self.write_config(self.config(steps=3))
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            report = self.work / f"report-{time.time_ns()}.jsonl"
            done = subprocess.run(["bash", "-c", f'"$0" train {config} --resume auto --report {report} --set '
                                   f"checkpoint.dir={report}.dir {closed}", fleet.BINARY], env=self.environment(),
                                  cwd=self.work, timeout=fleet.RUN_SECONDS)
            self.assertEqual(done.returncode, 0, closed)
            lines = [json.loads(line)["event"] for line in report.read_text().splitlines()]
            self.assertEqual((lines[0], lines[-1]), ("start", "end"), closed)
        self.assert_nothing_left()

    def test_signals_before_the_run(self):
        # A shell's "&" leaves the first two ignored, and nohup the third, which children inherit.
        for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            if signal.getsignal(each) == signal.SIG_IGN:
                self.addCleanup(signal.signal, each, signal.SIG_IGN)
                signal.signal(each, signal.SIG_DFL)
        for delay in (0, 0.005, 0.012, 0.02, 0.05):
            for sent, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130), (signal.SIGQUIT, None)):
                process = self.start("train", self.write_config(self.config(steps=100000)), "--resume", "auto")
                time.sleep(delay)  # a random moment; the command must end well at every one
                process.send_signal(sent)
                _, err = process.communicate(timeout=60)
                self.assertIn(process.returncode, (-sent, code), err[-2000:])
                self.assert_nothing_left()
                shutil.rmtree(self.work / "checkpoints", ignore_errors=True)

    # --- data

    def test_missing_data(self):
        self.refused_before_start(self.config(data={"train": [str(self.work / "gone.txt")]}), "gone.txt", code=DATA)

    def test_empty_data(self):
        (self.work / "empty.txt").write_text("")
        self.refused_before_start(self.config(data={"train": [str(self.work / "empty.txt")]}), "empty.txt", code=DATA)

    def test_too_short_data(self):
        (self.work / "short.txt").write_text("abc")
        self.refused_before_start(self.config(data={"train": [str(self.work / "short.txt")]}), "short.txt", code=DATA)

    def test_token_over_the_vocabulary(self):
        path = self.work / "high.u16"
        path.write_bytes(struct.pack("<4000H", *([7] * 3900 + [300] + [7] * 99)))
        self.refused_before_start(self.config(data={"train": [str(path)], "format": "tokens_u16"}, model={"vocab": 256}),
                                  "data.train[0]", "high.u16: token 3900 is id 300", "256", code=DATA)

    def test_foreign_data(self):
        (self.work / "meg.idx").write_bytes(b"MMIDIDX\0\0" + bytes(200))
        self.refused_before_start(self.config(data={"train": [str(self.work / "meg.idx")]}),
                                  "data.train[0]", "meg.idx: a Megatron index", code=DATA)
        self.refused_before_start(self.config(data={"train": ["/dev/zero"]}), "data.train[0]: /dev/zero: not a regular file",
                                  code=DATA)

    def test_a_file_cut_short_under_a_run(self):
        path, report = self.work / "cut.txt", self.work / "cut.jsonl"
        shutil.copy(self.train_file, path)
        process = self.start("train", self.write_config(self.config(data={"train": [str(path)]}, steps=100000)),
                             "--report", report)
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if report.exists() and '"event":"step"' in report.read_text().replace(" ", ""):
                os.truncate(path, 1000)
                break
            time.sleep(0.05)
        _, err = process.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(process.returncode, DATA, err[-2000:])
        self.assertIn("data.train[0]: " + str(path) + ": had", err)
        self.assert_nothing_left()

    # --- the fleet

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            run = self.run_command("coordinator", "--config", self.write_config(self.config()), "--listen",
                                   f"127.0.0.1:{port}", "--state-dir", self.work / "state")
            self.assert_refused(run, USAGE, str(port))

    def test_unreachable_coordinator(self):
        port = fleet.free_port()
        run = self.run_command("status", "--coordinator", f"127.0.0.1:{port}")
        self.assert_one_line(run, FLEET, str(port))

    def test_workers_with_different_binaries(self):
        other = self.work / "zerofleet-other"
        shutil.copy(fleet.BINARY, other)
        # A different build id makes a different binary, as recompiling would.
        note = subprocess.run(["readelf", "-n", str(other)], capture_output=True, text=True, check=True).stdout
        build_id = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", note).group(1))
        data = other.read_bytes()
        other.write_bytes(data.replace(build_id, bytes(reversed(build_id)), 1))

        port = fleet.free_port()
        config = self.write_config(self.config(restart={"form_timeout_seconds": 20}))
        coordinator = self.start("coordinator", "--config", config, "--listen", f"127.0.0.1:{port}",
                                 "--state-dir", self.work / "state")
        first = self.start("worker", "--coordinator", f"127.0.0.1:{port}", "--device", "cpu")
        time.sleep(1)
        second = subprocess.Popen([str(other), "worker", "--coordinator", f"127.0.0.1:{port}", "--device", "cpu"], text=True,
                                  env=self.environment(), cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, refused = second.communicate(timeout=60)
        coordinator.send_signal(signal.SIGTERM)
        coordinator.communicate(timeout=60)
        first.communicate(timeout=60)
        self.assertEqual(second.returncode, USAGE, refused[-2000:])
        self.assertRegex(refused, r"(?i)binary|build")
        self.assert_nothing_left()

    def test_interrupted_twice(self):
        report = self.work / "report.jsonl"
        process = self.start("train", self.write_config(self.config(steps=100000)), "--report", report)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (report.exists() and '"step"' in report.read_text()):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err[-2000:])
        self.assert_nothing_left()

    # --- checkpoints

    def trained(self):
        self.train(self.config(steps=4, checkpoint={"every_steps": 2, "keep": 5}))
        return self.work / "checkpoints" / "step-00000004"

    def test_a_damaged_shard_is_named_and_the_one_before_is_used(self):
        step_dir = self.trained()
        shard = step_dir / "rank-00001.safetensors"
        whole = shard.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for damaged in (bytes(flipped), whole[:-100]):
            shard.write_bytes(damaged)
            self.assert_one_line(self.run_command("checkpoint", "verify", step_dir), DATA, "rank-00001.safetensors")
            refused = self.train_anyhow(self.config(steps=6), "--resume", step_dir)
            self.assert_refused(refused, DATA, "rank-00001.safetensors")
            self.assertEqual(shard.read_bytes(), damaged, "a damaged file was overwritten")
        fell_back = self.train(self.config(steps=6, checkpoint={"keep": 5}), "--resume", "auto")
        self.assertEqual(fell_back.of("start")[0]["resumed_from"], 2)
        self.assertIn("rank-00001.safetensors", fell_back.err)

    def test_a_manifest_of_a_later_version(self):
        step_dir = self.trained()
        manifest = json.loads((step_dir / "manifest.json").read_text())
        manifest["format_version"] = 99
        (step_dir / "manifest.json").write_text(json.dumps(manifest))
        self.assert_one_line(self.run_command("checkpoint", "verify", step_dir), DATA, "99")
        self.assert_refused(self.train_anyhow(self.config(steps=6), "--resume", step_dir), DATA, "99")
        # Given the directory of the checkpoints, the error names the damaged one.
        self.assert_one_line(self.run_command("checkpoint", "verify", step_dir.parent), DATA, "99")
        read = self.run_command("eval", "--checkpoint", step_dir.parent, "--data", self.train_file, "--json")
        self.assertEqual((read.code, json.loads(read.out)["step"]), (0, 2), read.err)
        self.assertRegex(read.err, r"^\S+step-00000004/manifest.json: [^\n]*99[^\n]*; step 2, the newest that is whole, is used\n$")

    def test_a_checkpoint_of_another_model(self):
        step_dir = self.trained()
        for field, value in (("layers", 3), ("heads", 1)):
            run = self.train_anyhow(self.config(steps=6, model={field: value}), "--resume", step_dir)
            self.assert_refused(run, DATA, f"model.{field}")
        again = self.train_anyhow(self.config(steps=4, checkpoint={"keep": 5}))
        self.assertEqual((again.code, again.out.split(":")[0]), (0, "nothing to do"))

    def test_a_checkpoint_of_another_optimizer(self):
        step_dir = self.trained()
        run = self.train_anyhow(self.config(steps=6, optimizer={"name": "sgd"}), "--resume", step_dir)
        self.assert_refused(run, DATA, "optimizer.name is adamw there and sgd")

    def test_a_full_disk(self):
        """The only save of this run never finds room: it is tried several times, and the run ends with an error that says so."""
        disk = self.small_disk("64k")
        run = self.train_anyhow(self.config(steps=4, checkpoint={"dir": str(disk)}))
        self.assert_refused(run, DATA, "No space left on device; 1 other rank failed as well; the last save was tried 5 times")
        self.assertEqual(len(run.of("save_failed")), 5)
        self.assertEqual(list(disk.glob("step-*/manifest.json")), [], "a checkpoint that was not written is committed")
        self.assertEqual(list(disk.glob(".step-*")), [], "what failed saves wrote was left")

    def test_a_read_only_disk(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: mounting a read-only file system needs root")
        disk = self.work / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(disk)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("SKIPPED: this machine lets no one mount a file system")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        self.assert_refused(self.train_anyhow(self.config(steps=4, checkpoint={"dir": str(disk / "c")})), DATA, "read-only")


if __name__ == "__main__":
    fleet.main()
