"""Drives Debian's Chromium without a screen, over its DevTools pipe: standard library only.

The pipe carries JSON messages that end with a zero byte; https://chromedevtools.github.io/devtools-protocol has the methods.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 60  # the longest wait for one answer, on a busy machine


def chromium():
    """The browser's path; None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-headless-shell")


class Browser:
    """One page in a browser of its own."""

    def __init__(self, environment=None):
        self.profile = tempfile.mkdtemp(prefix="zerofleet-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The browser reads messages from descriptor 3 and writes them to 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["sh", "-c", script, "sh", chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment)
        os.close(to_browser)
        os.close(from_browser)
        self.unread, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def close(self):
        os.close(self.write_end)  # it ends with its pipe
        os.close(self.read_end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self.unread:
            if not select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"the browser has not answered for {SECONDS} s")
            chunk = os.read(self.read_end, 1 << 16)
            if not chunk:
                raise RuntimeError(f"the browser has ended with {self.process.wait()}")
            self.unread += chunk
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url):
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise RuntimeError(f"{url}: {failed}")

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page, even if the page itself may not run JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s for {expression}")
            time.sleep(0.2)

    def allow_scripts(self, allowed):
        self.call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
