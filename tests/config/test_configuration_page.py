"""docs/configuration.md is up to date."""

import re
from pathlib import Path

from langchain_hybridgraph.config import HybridGraphSettings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_table_is_the_generated_one():
    """The table has one row per key, in the order of the fields, with four cells each."""
    table = HybridGraphSettings.table()
    assert table in PAGE, f"put this table below the heading All settings:\n{table}"
    header, rule, *rows = table.splitlines()
    assert (header, rule) == ("| Key | Default | Allowed | Meaning |", "|---|---|---|---|")
    assert [row.split("`")[1] for row in rows] == list(HybridGraphSettings.model_fields)
    assert all(row.count("|") == 5 for row in rows)


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    """The Python blocks run in order, next to the YAML file of the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hybridgraph.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "configuration.md", "exec"), namespace)
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["Invoices are sent on Mondays. 5 2", "['Invoices are sent on Mondays.']"]
