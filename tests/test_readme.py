"""README.md is correct: its code and commands run, and it is short."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from langchain_hybridgraph.cli.app import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language, page=README):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_runs(folder, capsys):
    """Every Python block in the README runs unchanged and finds the text about error E-4711."""
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), namespace)
    namespace["store"].close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("Error E-4711: the card issuer asks for a second factor.")
    assert len([line for line in lines if "E-4711" in line]) == 2


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/command-line.md"])
def test_commands_run(folder, name):
    """Every hybridgraph command of a page runs, in order, over a folder of files."""
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nReset your password by the link in the mail.\n")
    (folder / "docs" / "faq.txt").write_text("A parcel takes two days.\n")
    (folder / "src").mkdir()
    (folder / "src" / "mail.py").write_text("def send():\n    return 25\n")
    (folder / "src" / "mail.conf").write_text("port = 25\n")
    commands = [
        shlex.split(line)[2:]
        for block in blocks("console", (ROOT / name).read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line[2:].startswith("hybrid")
    ]
    assert {command[0] for command in commands} >= {"ingest", "search", "stats", "check"}
    for command in commands:
        if command[0] == "ingest":
            command += ["--embedding", "lsa"]  # auto would want to download
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.stderr)
        assert done.stdout


def test_make_targets_exist():
    """The Makefile has every target that the README names."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []
