#!/usr/bin/env python3
"""The result of `cmake --install` runs from any folder with no library of the build machine but glibc, and its GPU suite
runs to its end.

The suite runs dry here: at small sizes on the CPU, where it measures nothing and says so.
"""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import fleet

BUILD = pathlib.Path(fleet.BINARY).resolve().parent
# Provided by glibc and the kernel.
OF_THE_MACHINE = re.compile(r"ld-linux|linux-vdso|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl)\.so")

LARGEST_ARCHIVE_BYTES = 40 << 20


class BundleStandsAlone(fleet.FleetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-bundle-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        # The bundle is installed in one place and used in another.
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(cls.made / "here")], check=True,
                       stdout=subprocess.DEVNULL)
        cls.bundle = cls.made / "there"
        (cls.made / "here").rename(cls.bundle)

    def environment(self):
        return {key: value for key, value in super().environment().items() if key != "LD_LIBRARY_PATH"}

    def programs(self):
        return [path for folder in ("bin", "libexec") for path in sorted((self.bundle / folder).iterdir())]

    def test_every_library_is_the_bundles_or_glibc(self):
        self.assertIn("zerofleet", [path.name for path in self.programs()])
        for program in self.programs():
            listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True,
                                    env=self.environment()).stdout
            for line in listed.splitlines():
                if OF_THE_MACHINE.search(line):
                    continue
                found = re.search(r"=> (\S+)", line)
                self.assertTrue(found and found.group(1) != "not", f"{program.name}: {line}")
                place = pathlib.Path(found.group(1)).resolve()
                self.assertTrue(place.is_relative_to(self.bundle.resolve()), f"{program.name}: {line}")

    def test_no_kill_point_is_in_it(self):
        for program in self.programs():
            self.assertNotIn(b"ZEROFLEET_KILL_AT", program.read_bytes(), f"{program.name} can be told to kill itself")

    def test_shells_and_man_find_their_files(self):
        share = self.bundle / "share"
        for file, begin in (("man/man1/zerofleet.1", '.\\"'), ("bash-completion/completions/zerofleet", "# Completion"),
                            ("zsh/site-functions/_zerofleet", "#compdef zerofleet"), ("fish/vendor_completions.d/zerofleet.fish", "# Completion"),
                            ("zerofleet/config.schema.json", "{")):
            self.assertTrue((share / file).read_text().startswith(begin), file)

    def test_two_workers_train_over_its_own_ucx(self):
        report = self.work / "report.jsonl"
        config = self.write_config(self.config(steps=4))
        maps = self.work / "maps.txt"
        trained = subprocess.run([str(self.bundle / "bin" / "zerofleet"), "train", str(config), "--report", str(report)],
                                 capture_output=True, text=True, cwd=self.work, timeout=fleet.RUN_SECONDS,
                                 env={**self.environment(), "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(maps)})
        self.assertEqual(trained.returncode, 0, trained.stderr[-2000:])
        events = [json.loads(line)["event"] for line in report.read_text().splitlines()]
        self.assertEqual(events.count("step"), 4)
        opened = "".join(path.read_text(errors="replace") for path in self.work.glob("maps.txt*"))
        # UCX's transports are found next to its libraries.
        self.assertRegex(opened, re.escape(str(self.bundle)) + r"(/bin/\.\.)?/lib/ucx/libuct_cma\.so")
        self.assert_nothing_left()

    def test_its_archive_is_small(self):
        """The archive is copied to GPU machines over slow links. Its programs contain the same kernels; a wide window finds them."""
        archive = self.work / "bundle.tar.zst"
        subprocess.run(["tar", "-C", str(self.bundle), "--use-compress-program=zstd -q -3 --long=27", "-cf", str(archive), "."], check=True)
        self.assertLess(archive.stat().st_size, LARGEST_ARCHIVE_BYTES)

    def test_the_gpu_suite_runs_dry(self):
        out = self.work / "out"
        script = self.bundle / "share" / "gpu-suite" / "bench" / "gpu_suite.sh"
        suite = subprocess.run(["sh", str(script), str(self.bundle), str(out), "--dry-run"], capture_output=True, text=True,
                               cwd=self.work, timeout=600, env=self.environment())
        log = (out / "suite.log").read_text() if (out / "suite.log").exists() else ""
        self.assertEqual(suite.returncode, 0, suite.stdout + suite.stderr + log[-4000:])
        result = json.loads((out / "result.json").read_text())
        states = {step["step"]: step["state"] for step in result["steps"]}
        self.assertTrue(result["dry_run"])
        self.assertEqual(states["stage_parity_fp32"], "passed")
        self.assertEqual(states["step_124m_stage3"], "passed")
        self.assertEqual(states["memcheck"], "skipped")
        self.assertEqual({row["verdict"] for row in result["floors"]}, {"not measured"})
        text = (out / "result.md").read_text()
        self.assertIn("Not a GPU result", text)
        self.assertEqual(len((out / "steps.jsonl").read_text().splitlines()), 1 + len(states))  # the first line has the settings
        self.assertEqual({step["figures"]["attention"]["bf16"] for step in result["steps"] if step["step"] == "facts"}, {"cpu"})

        # Called again, as after a call that was cut short: steps that passed are not run twice, and parts do not affect each other.
        again = subprocess.run(["sh", str(script), str(self.bundle), str(out), "--dry-run", "--part", "timed"],
                               capture_output=True, text=True, cwd=self.work, timeout=600, env=self.environment())
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        ran = [line.split()[3] for line in again.stdout.splitlines() if line.startswith("passed")]
        self.assertEqual(ran, ["facts"])
        states_again = {step["step"]: step["state"] for step in json.loads((out / "result.json").read_text())["steps"]}
        self.assertEqual(states_again, states)
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
