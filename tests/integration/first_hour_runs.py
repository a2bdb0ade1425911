#!/usr/bin/env python3
"""examples/first_hour: text to tokens, a killed worker, more steps, an evaluation, chats, an answer; and its tokenizer's template."""
import json
import shutil
import subprocess

import fleet

EXAMPLE = fleet.ROOT / "examples" / "first_hour"
FIXTURE = fleet.ROOT / "tests/oracle/data/tokenizers/gpt2.json"


class FirstHourRuns(fleet.FleetTest):
    def test_the_script(self):
        tokenizer = self.work / "tokenizer"
        tokenizer.mkdir()
        (tokenizer / "tokenizer.json").write_text(json.dumps(json.loads(FIXTURE.read_text())["tokenizer"]))
        shutil.copy(EXAMPLE / "chat_template.jinja", tokenizer)
        texts = [fleet.ROOT / "docs" / name for name in ("recovery.md", "offload.md", "data.md")]
        run = subprocess.run(["sh", EXAMPLE / "first_hour.sh", fleet.BINARY, tokenizer, self.work / "made", *texts], cwd=self.work,
                             env=self.environment(), capture_output=True, text=True, timeout=3 * fleet.RUN_SECONDS)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:] + run.stderr[-3000:])
        self.assertRegex(run.stdout, r"loss \d.* per byte\) over \d+ tokens of held.txt; step 200\n")
        tuned = [json.loads(line) for line in (self.work / "made/tuned.jsonl").read_text().splitlines()]
        losses = [event["loss"] for event in tuned if event["event"] == "step"]
        self.assertLess(losses[-1], losses[0] / 10, "the chats were not learnt")
        answer = run.stdout.splitlines()[-1]
        self.assertRegex(answer, r"^The \w+ is \w+\.$", "what is asked is among what was learnt")
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
