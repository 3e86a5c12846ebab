"""Page in a real headless browser without a network."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: apt install chromium")


def evaluate(page, expression, folder, width=900):
    """Show the page in a browser of this width, and return the value of a JavaScript expression."""
    file = folder / "page.html"
    show = f"document.body.dataset.value = JSON.stringify({expression})"
    script = f"<script>addEventListener('load', () => {show})</script>"
    file.write_text(page.replace("</body>", f"{script}</body>"), encoding="utf-8")
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
        *(f"--window-size={width},900", "--dump-dom", file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(unescape(re.search(r'data-value="([^"]*)"', done.stdout).group(1)))
