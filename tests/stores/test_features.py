"""Features that stores declare as missing, and the table made from them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_docs_is_up_to_date():
    """The table in docs/engines.md matches the features that the stores declare."""
    command = [sys.executable, ROOT / "docs" / "feature_table.py", "--check"]
    checked = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
