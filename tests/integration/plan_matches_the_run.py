#!/usr/bin/env python3
"""`zerofleet plan` compared with real processes: the peak of a worker, what `train` prints of its plan, what --auto chooses.

The predicted peak of a process is within 5% of its resident memory, for configurations drawn from a fixed seed, large enough that
the stated constant of code and libraries is the smaller part. bench/plan_accuracy.py draws more.
"""
import html.parser
import json
import random

import fleet


def drawn(random_numbers):
    """A configuration of 19 to 28 million parameters: 0.3 to 0.8 GB for each worker."""
    pick = random_numbers.choice
    workers = pick((1, 2))
    micro = pick((1, 2))
    return {
        "model": {"layers": pick((6, 9)), "hidden": 512, "heads": 8, "context": pick((32, 64)), "vocab": 256},
        "parallel": {"zero_stage": pick((0, 1, 2, 3)) if workers > 1 else pick((0, 3)), "workers": workers},
        "precision": pick(("bf16", "fp32")),
        "activation": {"checkpointing": pick(("none", "selective", "block"))},
        "batch": {"global_sequences": micro * workers, "micro_sequences": micro}, "steps": 2}


class PlanMatchesTheRun(fleet.FleetTest):
    def plan(self, config, *arguments):
        run = self.run_command("plan", self.write_config(config), "--json", *arguments)
        self.assertEqual(run.code, 0, run.err)
        return json.loads(run.out)

    def test_peaks_within_five_percent(self):
        random_numbers = random.Random(12)
        for number in range(10 if fleet.full_size() else 1):
            config = self.config(**drawn(random_numbers), checkpoint={"dir": str(self.work / f"checkpoints-{number}")})
            with self.subTest(number=number, parallel=config["parallel"], model=config["model"]):
                run = self.train(config)
                planned = self.plan(config)["rank_memory"]["process_bytes"]
                measured = max(rank["rss_peak_bytes"] for rank in run.of("end")[0]["ranks"])
                self.assertLess(abs(planned / measured - 1), 0.05, f"planned {planned >> 20} MiB, measured {measured >> 20} MiB")
                # The plan comes first on standard error, and again above the measured peaks.
                self.assertRegex(run.err, r"(?m)^plan: .* on \d workers?, ")
                self.assertLess(run.err.index("plan: "), run.err.index("coordinator at"))
                self.assertRegex(run.out, r"(?m)^  plan .*\n  0 ")

    def test_a_measured_step_comes_from_smaller_runs(self):
        # One layer and one worker: each further number of layers, worker and run takes seconds of all cores, and unit tests compare
        # all four of a larger model's runs.
        layers = 5 if fleet.full_size() else 1
        config = self.config(model={"layers": layers, "hidden": 24, "heads": 3, "context": 32}, parallel={"workers": 1},
                             batch={"global_sequences": 12, "micro_sequences": 1})
        step = self.plan(config, "--measure")["cluster"]["step"]
        runs = {(run["layers"], run["micro_batches"]): run for run in step["runs"]}
        self.assertEqual(sorted(runs), [(1, 2), (1, 4), (3, 2), (3, 4)] if fleet.full_size() else [(1, 2), (1, 4)])
        self.assertAlmostEqual(step["seconds"], sum(run["weight"] * run["seconds"] for run in runs.values()))
        self.assertTrue(all(run["seconds"] > 0 for run in runs.values()), runs)
        self.assertGreaterEqual(step["slowest_round_seconds"], step["seconds"])
        self.assertFalse((self.work / "checkpoints").exists(), "a plan leaves nothing behind")

    def test_as_many_states_stay_on_the_device_as_fit(self):
        def config(fraction, limit=None):
            return self.config(steps=3, offload={"optimizer": "cpu", "fraction": fraction}, memory={"device_limit": limit} if limit else {},
                               checkpoint={"dir": str(self.work / f"checkpoints-{fraction}"), "every_steps": 0})

        least, most = (sum(self.plan(config(fraction))["rank_memory"]["device"].values()) for fraction in (1, 0))
        limit = (least + most) // 2048
        runs = {fraction: self.train(config(fraction, f"{limit}KiB")) for fraction in (1, "auto")}
        chosen = runs["auto"].of("start")[0]["config"]["offload"]["fraction"]
        self.assertTrue(0 < chosen < 1, chosen)
        self.assertEqual(self.plan(config("auto", f"{limit}KiB"))["rank_memory"]["offload_fraction"], chosen)
        for rank in runs["auto"].of("end")[0]["ranks"]:
            device = sum(category["peak"] for category in rank["memory"]["device"].values())
            self.assertLessEqual(device, limit << 10)
        losses = {fraction: [step["loss"] for step in run.of("step")] for fraction, run in runs.items()}
        self.assertEqual(losses["auto"], losses[1])

    def test_auto_fills_what_is_open(self):
        config = self.config(steps=2, batch={"global_sequences": 8, "micro_sequences": 2}, parallel={"workers": 2})
        del config["parallel"]["zero_stage"]
        run = self.train(config, "--auto")
        self.assertRegex(run.err, r"(?m)^auto: parallel\.zero_stage=\d ")
        self.assertNotIn("batch.micro_sequences=", run.err)
        used = run.of("start")[0]["config"]
        self.assertEqual(int(used["batch"]["micro_sequences"]), 2)
        chosen = run.err.split("parallel.zero_stage=")[1][0]
        self.assertEqual(str(used["parallel"].get("zero_stage", 0)), chosen)
        refused = self.train_anyhow(self.config(memory={"device_limit": "64KiB"}), "--auto")
        self.assertEqual(refused.code, 3)
        self.assertRegex(refused.err, r"^zerofleet: nothing fits: even stage[^\n]*\n$")

    def test_what_cannot_fit_is_refused(self):
        run = self.train_anyhow(self.config(model={"layers": 200, "hidden": 24576, "heads": 8}))
        self.assertEqual(run.code, 3)
        self.assertRegex(run.err, r"^zerofleet: the run needs [\d.]+ TiB of memory on this machine[^\n]*\n$")

    def test_the_papers_configurations_can_be_planned(self):
        for number in range(1, 6) if fleet.full_size() else (1, 5):  # seconds each
            example = fleet.ROOT / "examples" / "zero" / f"c{number}.yaml"
            page = self.work / "page.html"
            run = self.run_command("plan", example, "--gpu", "v100", "--node-gpus", "16", "--json", "--html", page)
            self.assertEqual(run.code, 0, run.err)
            self.assertTrue(json.loads(run.out)["cluster"]["fits"], example)
            text = page.read_text()
            self.assertNotIn("http", text)
            html.parser.HTMLParser().feed(text)

    def test_bad_flags_are_one_line(self):
        for flags in (["--gpus", "0"], ["--gpus", "1e9"], ["--gpu-memory", "80"], ["--gpu-memory", "nanGiB"], ["--link", "-1GB/s"],
                      ["--gpu", "h10"], ["--efficiency", "2"], ["--host-memory", "99999999999999999999TiB"],
                      ["--gpus", "8", "--set", "parallel.tensor=3"], ["--gpus", "8", "--parameters", "1B"], ["--table", "9"]):
            run = self.run_command("plan", "--preset", "zero-8b", *flags)
            self.assertEqual(run.code, 2, flags)
            self.assertRegex(run.err, r"^zerofleet: [^\n]*\n$", flags)
            self.assertEqual(run.out, "")


if __name__ == "__main__":
    fleet.main()
