"""docs/configuration.md is up to date."""

import re
import subprocess
import sys
from pathlib import Path

from langchain_hybridgraph.settings import HybridGraphSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tables_are_up_to_date():
    """The generated option tables of all pages are up to date; otherwise the error names the command that writes
    them.
    """
    command = [sys.executable, "docs/option_tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_has_a_row_per_key():
    """The table of settings has one row of four cells for each key, in the order of the keys."""
    rows = re.findall(r"^\| `[a-z]+_.*", PAGE.partition("<!-- options -->")[2], re.MULTILINE)
    assert [row.split("`")[1] for row in rows] == list(HybridGraphSettings.model_fields)
    assert all(row.count("|") == 5 for row in rows)


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    """The page's Python blocks run in order with the page's YAML file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hybridgraph.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "configuration.md", "exec"), namespace)
    output = capsys.readouterr().out.splitlines()
    assert output == ["Invoices are sent on Mondays. 5 2", "['Invoices are sent on Mondays.']"]
