"""A page in a real browser, without a window and without a network."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: apt install chromium")


def seen(page, asked, folder, width=900):
    """Show the page in a browser of this width, and return the value of ``asked``, a JavaScript expression."""
    file = folder / "page.html"
    said = f"<script>addEventListener('load', () => document.body.dataset.said = JSON.stringify({asked}))</script>"
    file.write_text(page.replace("</body>", f"{said}</body>"), encoding="utf-8")
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
        *(f"--window-size={width},900", "--dump-dom", file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(unescape(re.search(r'data-said="([^"]*)"', done.stdout).group(1)))
