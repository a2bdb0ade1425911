#!/usr/bin/env python3
"""Ranks of a run are killed or stop answering: others take their places, and every loss is that of an undisturbed run."""
import ctypes
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import time

import fleet

FLEET = 4
STEPS = 300


PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL


class StoppedThread:
    """One thread of another process, held still; its other threads go on, including heartbeats."""

    def __init__(self, thread):
        self.thread, self.libc = thread, ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.held = self.libc.ptrace(PTRACE_SEIZE, thread, None, None) == 0
        if self.held:
            self.libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
            os.waitpid(thread, WAIT_ALL)  # until it has stopped

    def await_its_end(self):
        """Waits until the process was killed: its parent is told only after this holder."""
        while not os.WIFSIGNALED(os.waitpid(self.thread, WAIT_ALL)[1]):
            pass


def arenas(pid):
    """(begin, end) of the memory that a process has reserved for itself: private, writable, without a name."""
    lines = pathlib.Path("/proc", str(pid), "maps").read_text(encoding="utf-8").splitlines()
    ranges = [line.split()[0] for line in lines if line.split()[1] == "rw-p" and len(line.split()) == 5]
    return [tuple(int(word, 16) for word in each.split("-")) for each in ranges]


def change_weights(pid):
    """Flips one bit of every layer norm's gains in the memory of another process; returns how many were found before it ended.

    Before anything has been learnt, the gains are 1."""
    gains, changed = struct.pack("<24f", *[1.0] * 24), 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        try:
            for begin, end in arenas(pid):
                memory.seek(begin)
                content = memory.read(end - begin)
                at = content.find(gains)
                while at >= 0:
                    memory.seek(begin + at + 2)
                    memory.write(bytes([content[at + 2] ^ 0x40]))
                    changed += 1
                    at = content.find(gains, at + len(gains))
        except OSError as error:
            if changed == 0:
                raise error
    return changed


class RanksComeBack(fleet.FleetTest):
    undisturbed_losses = None

    def setUp(self):
        super().setUp()
        self.draw = random.Random(int(os.environ.get("ZEROFLEET_SEED", "1")))

    def run_config(self, name, **changes):
        base = {"steps": STEPS, "parallel": {"workers": 3}, "batch": {"micro_sequences": 2},
                "checkpoint": {"dir": str(self.work / name), "every_steps": 10},
                "restart": {"max_per_rank": 20, "heartbeat_timeout_seconds": 3}}
        return self.config(**fleet.merged(base, changes))

    def undisturbed(self):
        """The losses of an undisturbed run; the same for every test."""
        if RanksComeBack.undisturbed_losses is None:
            RanksComeBack.undisturbed_losses = self.train(self.run_config("undisturbed")).column("loss")
        return RanksComeBack.undisturbed_losses

    def started(self, config, event="checkpoint"):
        """A run that has reported its first committed checkpoint, or another event: its process and its report."""
        report = self.work / f"report-{time.time_ns()}.jsonl"
        process = self.start("train", self.write_config(config), "--report", report)
        self.wait_for(process, report, event, 1)
        return process, report

    def wait_for(self, process, report, event, count):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if report.exists() and report.read_text().count(f'"event":"{event}"') >= count:
                return
            time.sleep(0.01)  # polls a real process at intervals
        self.assertIsNone(process.poll(), f"the run ended before {count} x {event}")
        self.fail(f"no {count} x {event} in {fleet.RUN_SECONDS} s")

    def kill_one(self):
        """Kills one of the current workers, if there are any."""
        for pid in self.draw.sample(self.workers(), 1) if self.workers() else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself

    def ended(self, process, report):
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        return fleet.Run(process.returncode, out, err, report)

    def assert_recovered(self, run, recoveries):
        self.assertEqual(run.code, 0, run.err[-3000:])
        told = run.of("recovery")
        self.assertGreaterEqual(len(told), recoveries, run.err[-3000:])
        generations = [each["generation"] for each in told]
        self.assertEqual(generations, sorted(set(generations)), "generations do not grow")
        for each in told:
            self.assertLessEqual(each["lost_steps"], 2 * 10, "more steps lost than two checkpoints are apart")
        self.assert_same_bits(self.undisturbed(), run.column("loss"), "after the recoveries")
        self.assert_nothing_left()

    def test_killed_ranks_are_replaced(self):
        process, report = self.started(self.run_config("killed"))
        for kill in range(1, 4):
            self.kill_one()
            self.wait_for(process, report, "recovery", kill)
            time.sleep(self.draw.uniform(0, 0.3))  # another moment of a step each time
        self.assert_recovered(self.ended(process, report), 3)

    def test_a_peers_memory_replaces_storage(self):
        # Nothing is saved before the end, so every load comes from memory.
        config = self.run_config("memory", checkpoint={"every_steps": 0, "snapshot_every_steps": 2, "replicate": 1})
        report = self.work / "memory.jsonl"
        process = self.start("train", self.write_config(config), "--report", report)
        self.wait_for(process, report, "step", 30)
        for kill in range(1, 4):
            self.kill_one()
            self.wait_for(process, report, "recovery", kill)
            self.wait_for(process, report, "step", 30 + 40 * kill)
            self.assertEqual(list((self.work / "memory").glob("step-*")), [])
        run = self.ended(process, report)
        self.assert_recovered(run, 3)
        for told in run.of("recovery"):
            self.assertGreater(told["resumed_step"], 0, "a recovery began again from the seed")
        self.assertNotIn("could not", run.err)

    def test_without_copies_a_loss_goes_back_to_the_checkpoint(self):
        process, report = self.started(self.run_config("own", checkpoint={"snapshot_every_steps": 3}))
        self.kill_one()
        run = self.ended(process, report)
        self.assert_recovered(run, 1)
        self.assertEqual(run.of("recovery")[0]["resumed_step"] % 10, 0)

    def test_a_checkpoint_that_is_swapped_is_not_gone_on_from(self):
        config = self.run_config("swapped", restart={"heartbeat_timeout_seconds": 60})
        process, report = self.started(config)
        self.wait_for(process, report, "checkpoint", 2)
        stopped = self.workers()[1]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(1)  # until a commit under way is done
        older, newest = sorted((self.work / "swapped").glob("step-*"))[-2:]
        shutil.rmtree(newest)
        shutil.copytree(older, newest)
        refused = self.run_command("checkpoint", "verify", newest)
        self.assertEqual(refused.code, 3, refused.out)
        os.kill(stopped, signal.SIGKILL)
        run = self.ended(process, report)
        self.assertEqual(run.code, 0, run.err[-3000:])
        step = int(newest.name.removeprefix("step-"))
        self.assertIn(f"but its directory is named for {step}", refused.err)
        self.assertIn(f"but its directory is named for {step}", run.err)
        self.assertLess(run.of("recovery")[0]["resumed_step"], step)
        self.assert_same_bits(self.undisturbed(), run.column("loss"), "after the recovery")
        self.assertTrue(newest.with_name(newest.name + ".damaged").is_dir())

    def test_two_ranks_at_once(self):
        process, report = self.started(self.run_config("two"))
        for pid in self.workers()[:2]:
            os.kill(pid, signal.SIGKILL)
        self.assert_recovered(self.ended(process, report), 1)

    def test_a_rank_that_does_not_answer(self):
        process, report = self.started(self.run_config("stopped"))
        os.kill(self.workers()[1], signal.SIGSTOP)
        run = self.ended(process, report)
        self.assert_recovered(run, 1)
        self.assertGreaterEqual(run.of("recovery")[0]["detect_seconds"], 3)

    def test_a_spare_takes_the_place(self):
        process, report = self.started(self.run_config("spare", restart={"spares": 1}))
        workers = self.workers()
        self.assertEqual(len(workers), 4)
        words = pathlib.Path("/proc", str(workers[0]), "cmdline").read_bytes().decode().split("\0")
        status = self.run_command("status", "--coordinator", words[words.index("--coordinator") + 1], "--json")
        ranks = [member["pid"] for member in json.loads(status.out)["members"] if member["state"] != "spare"]
        os.kill(ranks[0], signal.SIGKILL)
        run = self.ended(process, report)
        self.assertRegex(run.err, r"a spare \(.*\) takes the place of rank \d")
        self.assert_recovered(run, 1)

    def test_a_rank_that_hangs(self):
        process, report = self.started(self.run_config("hangs", restart={"hang_timeout_seconds": 3}))
        stopped = StoppedThread(self.workers()[1])
        if not stopped.held:
            process.kill()
            self.skipTest("this process may not hold another's thread")
        stopped.await_its_end()
        run = self.ended(process, report)
        self.assert_recovered(run, 1)
        # It may have been stopped while it wrote a checkpoint; then that is what did not go on.
        self.assertRegex(run.of("recovery")[0]["cause"],
                         r"^lost rank \d .*: (hangs: the others have waited for \d|its write of step \d+ has made no progress).*"
                         r"rank \d has not arrived at \w+ of [\w.]+ ")

    def test_a_rank_whose_memory_changes(self):
        # The learning rate is so small that all steps see the weights of the first. In stage 0 each rank updates its own copy. There is
        # no save before the end, since a change between a comparison and a save would be saved.
        still = {"parallel": {"zero_stage": 0}, "optimizer": {"learning_rate": 1e-12}, "checkpoint": {"every_steps": 0}}
        losses = self.train(self.run_config("still", **still)).column("loss")
        for key, compared in (("every_steps", "parameters"), ("replay_every_steps", "gradients of a micro-batch")):
            with self.subTest(key):
                process, report = self.started(self.run_config(key, integrity={key: 2}, **still), "step")
                try:
                    self.assertGreater(change_weights(self.workers()[1]), 0)
                except PermissionError:
                    process.kill()
                    self.skipTest("this process may not write to another's memory")
                run = self.ended(process, report)
                self.assertEqual(run.code, 0, run.err[-3000:])
                self.assertEqual(len(run.of("recovery")), 1, run.err[-3000:])
                self.assertRegex(run.of("recovery")[0]["cause"], r"^lost rank 1 .*silent data corruption at step \d+: rank 1 "
                                 rf"disagrees with the majority on the {compared}")
                self.assert_same_bits(losses, run.column("loss"), "after the recovery")
                self.assert_nothing_left()

    def test_fewer_workers_go_on_and_more_join(self):
        in_sample_order = {"reduce": {"order": "samples"}, "batch": {"micro_sequences": 2}, "ema": {"decay": 0.95},
                           "data": {"validation": [str(self.held_file)]}, "evaluate": {"every_steps": 20, "batches": 1, "weights": "ema"}}
        undisturbed = self.train(self.run_config("one-worker", parallel={"workers": 1}, **in_sample_order))
        config = self.run_config("elastic", restart={"min_workers": 2, "form_timeout_seconds": 4}, **in_sample_order)
        report = self.work / "elastic.jsonl"
        coordinator = self.start("coordinator", "--config", self.write_config(config), "--listen", "127.0.0.1:0", "--state-dir",
                                 self.work / "state", "--report", report)
        address = coordinator.stdout.readline().split()[-1]
        workers = [self.worker(address) for _ in range(3)]
        self.wait_for(coordinator, report, "checkpoint", 1)
        workers[0].kill()
        self.wait_for(coordinator, report, "recovery", 1)
        workers.append(self.worker(address))
        self.wait_for(coordinator, report, "recovery", 2)
        run = self.ended(coordinator, report)
        self.assertEqual([worker.wait(60) for worker in workers], [-signal.SIGKILL, 0, 0, 0], run.err[-2000:])
        self.assertIn("going on with 2 of 3 workers", run.err)
        self.assertIn("workers have joined: from 2 to 3", run.err)
        self.assertEqual(run.code, 0, run.err[-2000:])
        self.assert_same_bits(undisturbed.column("loss"), run.column("loss"), "with fewer workers for a while")
        of_the_average = [{each["step"]: each["loss"] for each in one.of("evaluate")} for one in (undisturbed, run)]
        self.assert_same_bits(*of_the_average, "evaluations of the average, with fewer workers for a while")
        self.assertEqual(*(fleet.checkpoint_states(fleet.latest_checkpoint(self.work / name)) for name in ("one-worker", "elastic")))
        for worker in workers:
            worker.communicate()  # closes its pipes
        self.assert_nothing_left()

    def test_workers_that_never_join_are_given_up(self):
        """Without room for a stack every replacement dies as it starts. The fleet goes on with the workers that are left."""
        in_sample_order = {"reduce": {"order": "samples"}, "batch": {"micro_sequences": 2}}
        undisturbed = self.train(self.run_config("alone", parallel={"workers": 1}, **in_sample_order)).column("loss")
        process, report = self.started(self.run_config(
            "given-up", restart={"min_workers": 2, "form_timeout_seconds": 4, "max_per_rank": 1}, **in_sample_order))
        resource.prlimit(process.pid, resource.RLIMIT_STACK, (16 << 10, resource.prlimit(process.pid, resource.RLIMIT_STACK)[1]))
        self.kill_one()
        run = self.ended(process, report)
        self.assertEqual(run.code, 0, run.err[-2000:])
        self.assertRegex(run.err, r"ended before it had joined; no other is started: restart.max_per_rank, 1, is spent")
        self.assertIn("going on with 2 of 3 workers", run.err)
        self.assert_same_bits(undisturbed, run.column("loss"), "with fewer workers")
        self.assert_nothing_left()

    def test_logs_that_are_gone_hold_nobody_up(self):
        """The directory of the logs is removed, and later replaced by a file: lost workers are replaced all the same."""
        process, report = self.started(self.run_config("logs", restart={"max_per_rank": 2}))
        logs = self.work / "logs" / "logs"
        shutil.rmtree(logs)
        self.kill_one()
        self.wait_for(process, report, "recovery", 1)
        self.assertTrue(any(logs.iterdir()), "no log was made anew")
        shutil.rmtree(logs)
        logs.write_text("not a directory")
        self.kill_one()
        self.wait_for(process, report, "recovery", 2)
        run = self.ended(process, report)
        self.assert_recovered(run, 2)
        self.assertRegex(run.err, r"worker-\d has no log but in memory: .*logs/worker-\d.log: Not a directory")

    def test_a_start_that_fails_is_tried_again(self):
        """For a while the launcher can open no file: no process is started, which costs no restart."""
        process, report = self.started(self.run_config("starts", steps=1_000_000, restart={"max_per_rank": 1}))
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
        self.kill_one()
        time.sleep(4)  # enough for several attempts, a second apart
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.wait_for(process, report, "recovery", 1)
        process.send_signal(signal.SIGTERM)
        run = self.ended(process, report)
        self.assertEqual(run.code, 143, run.err[-3000:])
        self.assertIn("no worker was started: no pipe for worker-", run.err)
        self.assertRegex(run.err, r"worker \d \(pid \d+\) was started")
        self.assert_nothing_left()

    def worker(self, address):
        return self.start("worker", "--coordinator", address, "--device", "cpu", "--threads", 1, "--interface", "lo")

    def test_the_restarts_are_spent(self):
        process, report = self.started(self.run_config("spent", steps=1_000_000, restart={"max_per_rank": 1}))
        victims = 0
        while process.poll() is None and victims < 8:
            self.kill_one()
            victims += 1
            time.sleep(0.7)  # time for the fleet to come back, or to end
        run = self.ended(process, report)
        self.assertEqual(run.code, FLEET, run.err[-2000:])
        self.assertEqual(len(run.error_lines()), 1, run.err[-2000:])
        self.assertRegex(run.error_lines()[0], r"rank \d.*has used its 1 restart \(restart.max_per_rank\); \d losses?: .*step \d+")
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
