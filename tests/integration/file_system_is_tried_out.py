#!/usr/bin/env python3
"""A coordinator tests the file systems of its directories: one on which no commit is safe is refused, and a weak one is reported.

The disk that breaks each promise is tests/chaos/bad_disk.cc.
"""
import errno
import os
import signal
import sys

import fleet

sys.path.insert(0, str(fleet.ROOT / "tests" / "chaos"))
import disk  # noqa: E402

TRIAL = "/.probe."


class FileSystemIsTriedOut(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        if disk.why_not():
            self.skipTest(f"SKIPPED: {disk.why_not()}")
        self.checkpoints = self.work / "checkpoints"
        self.state = self.work / "state"
        self.disk = disk.BadDisk(self.work, 1)

    def environment(self):
        return {**super().environment(), **self.disk.environment}

    def coordinator(self, **checkpoint):
        config = self.config(checkpoint=checkpoint, restart={"form_timeout_seconds": 2})
        return self.run_command("coordinator", "--config", self.write_config(config), "--listen", "127.0.0.1:0",
                                "--state-dir", self.state, timeout=60)

    def assert_refused(self, text, **how):
        self.disk.fail(where=how.pop("where", str(self.checkpoints) + TRIAL), **how)
        run = self.coordinator()
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(len(run.error_lines()), 1, run.err)
        self.assertRegex(run.err, rf"checkpoint.dir: {self.checkpoints} is on .*, where {text}.*: no checkpoint can be committed safely there")
        self.disk.mend()
        self.assertEqual(sorted(os.listdir(self.checkpoints)), [".lock"], "the trial left something, or something was written after it")

    def test_what_makes_commits_unsafe_is_refused(self):
        self.assert_refused(r"exclusive creation \(O_EXCL\)", fault=disk.FEIGNED, calls=disk.OPEN)
        self.assert_refused("a rename replaces a file against RENAME_NOREPLACE", fault=disk.FEIGNED, calls=disk.RENAME)
        self.assert_refused("a rename with RENAME_NOREPLACE fails", fault=disk.ERROR, calls=disk.RENAME, error=errno.EPERM)
        self.assert_refused(r"a rename does not replace a file \(Invalid argument\)", fault=disk.ERROR, calls=disk.RENAME, error=errno.EINVAL)
        self.assert_refused(r"fsync of a file fails", fault=disk.ERROR, calls=disk.SYNC, error=errno.EINVAL)
        self.assert_refused(r"fsync of a directory fails", where=str(self.checkpoints), but=TRIAL, fault=disk.ERROR, calls=disk.SYNC, error=errno.EINVAL)
        self.assert_refused(r"a directory cannot be made", fault=disk.ERROR, calls=disk.MAKE, error=errno.ENOSYS)

    def test_what_fails_just_now_is_another_error(self):
        self.disk.fail(disk.ERROR, str(self.checkpoints) + TRIAL, disk.SYNC, error=errno.EIO)
        run = self.coordinator()
        self.assertEqual(run.code, 3, run.err)
        self.assertRegex(run.err, rf"checkpoint.dir: {self.checkpoints} cannot be written: .*Input/output error")

    def test_what_is_weak_is_told_of_in_one_line(self):
        self.disk.fail(disk.FEIGNED, str(self.checkpoints), disk.LOCK)
        told = [line for line in self.train(self.config()).err.splitlines() if "the file system of" in line]
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], rf"checkpoint.dir: the file system of {self.checkpoints} \(.*\) gives a lock \(flock\) to two at once: "
                                  "start no second coordinator there from another node$")

    def test_storage_that_hangs_is_given_up(self):
        self.disk.fail(disk.HUNG, str(self.checkpoints) + TRIAL, disk.SYNC)
        run = self.coordinator(stall_timeout_seconds=1)
        self.assertEqual(run.code, 3, run.err)
        self.assertRegex(run.err, rf"the opening of checkpoint.dir {self.checkpoints} has got no further for 3 s")
        self.assertRegex(run.err, r"the opening of checkpoint.dir .* has got no further for 1 s \(checkpoint.stall_timeout_seconds\): look at its storage")

    def test_what_a_killed_trial_left_is_removed(self):
        self.disk.fail(disk.TORN, str(self.checkpoints) + TRIAL, disk.RENAME)
        run = self.coordinator()
        self.assertEqual(run.code, -signal.SIGKILL, run.err)
        self.assertNotEqual(list(self.checkpoints.glob(".probe.*")), [])
        self.train(self.config())
        self.assertEqual(list(self.checkpoints.glob(".probe.*")), [])


if __name__ == "__main__":
    fleet.main()
