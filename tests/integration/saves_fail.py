#!/usr/bin/env python3
"""Failed saves do not end a run: a disk is full for a while or from the start, or the checkpoint directory is removed during the run."""
import contextlib
import shutil
import signal
import time

import fleet

COMPARED = 400  # steps whose losses are those of an undisturbed run
EVERY = 10


class SavesFail(fleet.FleetTest):
    def run_config(self, directory, steps=1_000_000):
        """The configuration of a run that is long enough for all faults, even on the fastest machine."""
        return self.config(steps=steps, schedule={"decay": "constant"},
                           checkpoint={"dir": str(directory), "every_steps": EVERY, "keep": 2})

    def started(self, config):
        report = self.work / f"report-{time.time_ns()}.jsonl"
        return self.start("train", self.write_config(config), "--report", report), report

    def until(self, process, report, text, count):
        """Yields until the report has `count` occurrences of `text`."""
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not report.exists() or report.read_text().count(text) < count:
            self.assertIsNone(process.poll(), f"the run ended before {count} of {text}")
            self.assertLess(time.monotonic(), deadline, f"{count} of {text}: not in {fleet.RUN_SECONDS} s")
            yield
            time.sleep(0.002)  # polls a real process at intervals

    def wait_for(self, process, report, event, count):
        for _ in self.until(process, report, f'"event":"{event}"', count):
            pass

    def stopped(self, process, report, directory):
        """Stops the run, which saves once more, and checks that its last checkpoint is whole. Returns the run."""
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 128 + signal.SIGINT, err[-3000:])
        self.assertEqual(run.of("recovery"), [], "a failed save is no loss")
        last = fleet.latest_checkpoint(directory)
        self.assertEqual(last.name, f"step-{max(run.column('loss')):08}")
        verified = self.run_command("checkpoint", "verify", last)
        self.assertEqual(verified.code, 0, verified.err)
        self.assertEqual(list(directory.glob(".step-*")), [], "what failed saves wrote was left")
        return run

    def test_a_disk_that_is_full_for_a_while(self):
        disk = self.small_disk("8m")
        process, report = self.started(self.run_config(disk / "checkpoints"))
        self.wait_for(process, report, "checkpoint", 2)
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            # The remains of a failed save are removed, which frees room for shards: the loop fills the disk until there is none.
            for _ in self.until(process, report, "could not write its shard", 3):
                with contextlib.suppress(OSError):  # no space is left
                    while True:
                        file.write(bytes(4096))
        kept = fleet.latest_checkpoint(disk / "checkpoints")
        verified = self.run_command("checkpoint", "verify", kept)
        self.assertEqual(verified.code, 0, f"what was committed before is not readable: {verified.err}")
        filler.unlink()
        self.wait_for(process, report, "checkpoint", report.read_text().count('"event":"checkpoint"') + 2)
        self.wait_for(process, report, "step", COMPARED)
        run = self.stopped(process, report, disk / "checkpoints")
        losses = run.column("loss")
        undisturbed = self.train(self.run_config(self.work / "undisturbed", steps=COMPARED)).column("loss")
        self.assert_same_bits(undisturbed, {step: losses[step] for step in undisturbed}, "losses")
        failed = run.of("save_failed")
        self.assertEqual([each["in_a_row"] for each in failed], list(range(1, len(failed) + 1)))
        messages = "\n".join(each["message"] for each in failed)
        self.assertRegex(messages, r"rank [01] \(host .*, pid \d+\) could not write its shard of step \d+: .*"
                                   r"rank-0000[01].safetensors: cannot \w+: No space left on device")
        self.assertIn("no checkpoint: ", run.err)

    def test_a_run_that_begins_on_a_full_disk(self):
        disk = self.small_disk("8m")
        directory = disk / "checkpoints"
        process, report = self.started(self.run_config(directory))
        self.wait_for(process, report, "checkpoint", 2)
        self.stopped(process, report, directory)
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        for _ in range(2):  # the room that the first one uses must be free again for the next
            process, report = self.started(self.run_config(directory))
            self.wait_for(process, report, "save_failed", 1)
            self.assertIn("No space left on device", report.read_text())
            process.kill()
            process.communicate(timeout=fleet.RUN_SECONDS)
            self.assert_nothing_left()
        process, report = self.started(self.run_config(directory))
        self.wait_for(process, report, "save_failed", 1)
        filler.unlink()
        self.wait_for(process, report, "checkpoint", 2)
        self.stopped(process, report, directory)

    def test_a_checkpoint_directory_that_is_removed(self):
        directory = self.work / "checkpoints"
        process, report = self.started(self.run_config(directory))
        self.wait_for(process, report, "checkpoint", 2)
        shutil.rmtree(directory, ignore_errors=True)
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while process.poll() is None and not (directory / ".lock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)  # polls a real process at intervals
        second = self.train_anyhow(self.run_config(directory))
        self.assertNotEqual(second.code, 0, "a second run took the directory that the first made anew")
        self.assertIn("another run holds", second.err)
        run = self.stopped(process, report, directory)
        self.assertRegex(run.err, r"was\s+removed\s+and\s+is\s+made\s+anew")


if __name__ == "__main__":
    fleet.main()
