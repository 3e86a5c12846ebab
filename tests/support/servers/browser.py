"""Page in a real headless browser without a network."""

import json
import re
import shutil
import subprocess
import time
from base64 import b64decode
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
COMMAND = (BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: apt install chromium")


def evaluate(page, expression, folder, width=900):
    """Show the page in a browser of this width, and return the value of a JavaScript expression."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    with Tab(folder / "profile", width, 900) as tab:
        tab.open(file.as_uri())
        return tab.value(f"({expression})")


class Tab:
    """Tab of a headless browser, controlled over the Chrome DevTools Protocol."""

    def __init__(self, folder, width=1100, height=900, dark=False):
        options = (OFFLINE, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank")
        self._process = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True)
        addresses = (re.search(r"127\.0\.0\.1:(\d+)/devtools", line) for line in self._process.stderr)
        port = next(filter(None, addresses)).group(1)
        with urlopen(f"http://127.0.0.1:{port}/json", timeout=60) as answer:
            [page] = [each for each in json.load(answer) if each["type"] == "page"]
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None)
        self._number = 0
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()

    def call(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def value(self, expression):
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, url):
        """Open an address, and wait until the page is complete."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, condition, seconds=60):
        """Wait until a JavaScript condition is true."""
        deadline = time.monotonic() + seconds
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"{condition} did not become true"
            time.sleep(0.05)

    def type(self, text):
        """Type a text into the focused element."""
        self.call("Input.insertText", text=text)

    def press(self, key):
        """Press and release a key."""
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, file, element=None):
        """Save a picture of the window, or of the element that a JavaScript expression returns."""
        options = {}
        if element is not None:
            box = self.value(
                f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({element}.getBoundingClientRect())"
            )
            options = {"clip": {**box, "scale": 1}}
        file.write_bytes(b64decode(self.call("Page.captureScreenshot", **options)["data"]))
