#!/usr/bin/env python3
"""The coordinator's status page in a real browser: it shows the run, follows it with JavaScript and without, and fits a phone and a
wide screen.

Skipped where Debian's `chromium` is not installed. ZEROFLEET_SCREENSHOTS names a folder for pictures of the page.
"""
import os
import pathlib
import subprocess
import time
import urllib.request

import browser
import fleet

STEP = "Number(document.querySelector('progress').value)"
WIDTHS = (400, 1600)


class StatusPage(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        if not browser.chromium():
            self.skipTest("SKIPPED: no Chromium here; Debian's package is chromium")
        port = fleet.free_port(3)
        config = self.write_config(self.config(steps=1_000_000, checkpoint={"every_steps": 200, "keep": 2}))
        log = open(self.work / "log", "wb")
        self.addCleanup(log.close)
        self.run_process = subprocess.Popen([fleet.BINARY, "train", str(config), "--metrics-port", str(port)], stdout=log, stderr=log,
                                            env=self.environment(), cwd=self.work)
        self.addCleanup(self.end_run)
        self.url = f"http://127.0.0.1:{port}/status"
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)
        self.addCleanup(self.show_log)

    def end_run(self):
        self.run_process.terminate()
        self.run_process.wait(fleet.RUN_SECONDS)

    def show_log(self):
        if self.run_process.poll() is not None:
            print((self.work / "log").read_text()[-2000:])

    def open(self):
        """Opens the page once the run trains."""
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.url, timeout=5) as answer:
                    if b"<polyline" in answer.read():
                        break
            except OSError:
                pass
            self.assertIsNone(self.run_process.poll())
            time.sleep(0.2)
        self.browser.open(self.url)
        self.browser.wait_for("document.readyState === 'complete' && document.querySelector('progress') !== null")

    def text(self):
        return self.browser.evaluate("document.body.innerText")

    def test_it_follows_the_run(self):
        self.open()
        # Positions of collectives come with heartbeats, which a run that has just begun has not sent yet.
        self.browser.wait_for("document.body.innerText.toLowerCase().includes('data ')")
        text = self.text().lower()
        for part in ("training", "loss", "throughput", "tokens/s", "goodput", "last checkpoint", "members", "partitions",
                     "parameters", "exp_avg", "collectives", "data "):
            self.assertIn(part, text)
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('section')].map(s => s.querySelectorAll('tbody tr').length)"),
                         [0, 2, 2])
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.querySelector('polyline')).fill"), "none", "no style sheet")
        # The page changes in place and is not loaded again.
        self.browser.evaluate("window.sameDocument = true")
        before = self.browser.evaluate(STEP)
        self.browser.wait_for(f"{STEP} > {before}")
        self.assertTrue(self.browser.evaluate("window.sameDocument"))
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.getElementById('away')).display"), "none")
        self.widths_fit("scripts")
        self.end_run()
        self.browser.wait_for("getComputedStyle(document.getElementById('away')).display === 'block'")
        self.assertGreater(self.browser.evaluate(STEP), before, "what was last known stays")

    def test_it_follows_the_run_without_scripts(self):
        self.browser.allow_scripts(False)
        self.open()
        before = self.browser.evaluate(STEP)
        self.browser.evaluate("window.sameDocument = true")
        self.browser.wait_for(f"document.querySelector('progress') !== null && {STEP} > {before}")
        self.assertFalse(self.browser.evaluate("Boolean(window.sameDocument)"), "it was to be loaded again")
        self.widths_fit("no-scripts")

    def widths_fit(self, name):
        for width in WIDTHS:
            self.browser.resize(width, 900)
            self.browser.wait_for(f"innerWidth === {width} && document.querySelector('main') !== null")
            wide = self.browser.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(wide, width, f"{width} px: the page itself must not scroll sideways")
            # The curve is as wide as the page, up to 54rem, beyond which its letters would be larger than the text.
            curve = self.browser.evaluate("document.querySelector('svg').getBoundingClientRect().width")
            self.assertGreater(curve, min(width, 54 * 16) * 0.8)
            folder = os.environ.get("ZEROFLEET_SCREENSHOTS")
            if folder:
                self.browser.screenshot(pathlib.Path(folder) / f"status-{name}-{width}.png")


if __name__ == "__main__":
    fleet.main()
