#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md in order, as a reader would: each `sh` block, in a copy of the tree's text files."""
import os
import re
import shutil
import subprocess

import fleet

PAGE = fleet.ROOT / "docs" / "tutorial.md"


class TutorialRuns(fleet.FleetTest):
    def test_every_block(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 5)
        (self.work / "build").mkdir()
        os.symlink(fleet.BINARY, self.work / "build" / "zerofleet")
        shutil.copytree(fleet.ROOT / "docs", self.work / "docs")
        shutil.copy(fleet.ROOT / "README.md", self.work)
        # On a machine that is busy with other tests a heartbeat may be late, and the port may be taken.
        script = "set -euo pipefail\n" + "".join(blocks)
        script = script.replace("steps: 200\n", "steps: 200\nrestart: {heartbeat_timeout_seconds: 20}\n")
        script = script.replace(":7070", f":{fleet.free_port()}")
        run = subprocess.run(["bash", "-c", script], cwd=self.work, env=self.environment(), capture_output=True, text=True,
                             timeout=3 * fleet.RUN_SECONDS)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:] + run.stderr[-3000:])
        self.assertIn("nothing to do:", run.stdout)
        steps = [int(step) for step in re.findall(r"steps +(\d+)\n", run.stdout)]
        self.assertEqual(steps[0], 200)
        self.assertEqual(steps[-1], 50, "fine-tuning must end at its own last step")
        for made in ("checkpoints", "by-hand", "tuned"):
            self.assertIsNotNone(fleet.latest_checkpoint(self.work / "tutorial" / made))
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
