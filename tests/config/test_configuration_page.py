"""docs/configuration.md is true."""

import re
from pathlib import Path

from langchain_hybridgraph.config import HybridGraphSettings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_its_table_is_that_of_the_code():
    """One row per key, in the order of the fields, each with four cells."""
    table = HybridGraphSettings.table()
    assert table in PAGE, f"put this below the heading All settings:\n{table}"
    header, rule, *rows = table.splitlines()
    assert (header, rule) == ("| Key | Default | Allowed | Meaning |", "|---|---|---|---|")
    assert [row.split("`")[1] for row in rows] == list(HybridGraphSettings.model_fields)
    assert all(row.count("|") == 5 for row in rows)


def test_its_code_runs(tmp_path, monkeypatch, capsys):
    """Beside its file, one block after the other."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hybridgraph.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "configuration.md", "exec"), namespace)
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["Invoices are sent on Mondays. 5 2", "['Invoices are sent on Mondays.']"]
