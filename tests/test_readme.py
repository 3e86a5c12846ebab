"""The README is true: its code runs, its tables are those of the code."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from langchain_hybridgraph.cli.commands import app
from langchain_hybridgraph.cli.screen import MEANINGS, meaning
from langchain_hybridgraph.stores.opening import MATRIX_BYTES
from langchain_hybridgraph.stores.vectors import EXACT_BYTES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_runs(folder, capsys):
    """Every Python block runs, one after the other, in an empty folder, and shows what it says."""
    for file in blocks("yaml"):
        (folder / "hybridgraph.yaml").write_text(file, encoding="utf-8")
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), namespace)
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].endswith("Error E-4711: the card issuer asks for a second factor.")
    assert "found by" in shown
    namespace["configured"].vector_store.close()


def test_commands_run(folder):
    """Every hybridgraph command runs, one after the other, over a folder of files."""
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nReset your password by the link in the mail.\n")
    (folder / "docs" / "faq.txt").write_text("A parcel takes two days.\n")
    commands = [
        shlex.split(line)[2:]
        for block in blocks("console")
        for line in block.splitlines()
        if line[2:].startswith("hybrid")
    ]
    assert {command[0] for command in commands} >= {"ingest", "search", "stats", "delete", "check"}
    for command in commands:
        if command[0] == "ingest":
            command += ["--embedding", "lsa"]  # auto would want to download
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.stderr)
        assert done.stdout


def test_make_targets_are_there():
    """What the README tells make to do, the Makefile can."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("reason", MEANINGS)
def test_every_degradation_is_explained(reason):
    """What the command line explains, the README explains."""
    assert f"| `{reason}` |" in README


def test_every_degradation_that_the_code_says_has_a_meaning():
    """No reason is written in the package without an explanation."""
    said = re.compile(r"""(?:degrade\(|reason\s*=|return \[hits\[0\]\], \[|short = .* else )\s*"([a-z-]+)\"""")
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "langchain_hybridgraph").rglob("*.py"))
    found = set(said.findall(code))
    assert {"interleaved", "keyword-fallback", "filter-post-applied", "single-chunk-exceeds-budget"} <= found
    assert found - set(MEANINGS) == set()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("deadline-exceeded:keyword", "deadline-exceeded:SOURCE"), ("wiki-failed", "SOURCE-failed")],
)
def test_a_degradation_that_names_its_source_has_a_meaning(reason, kind):
    """Whatever the source is called."""
    assert meaning(reason) == MEANINGS[kind]


def test_the_sizes_of_the_ways_to_search():
    """Up to which size the vectors are all compared, and from which on Chroma is asked, is what the code says."""
    for size in (EXACT_BYTES, MATRIX_BYTES):
        assert f"{size >> 20} MB of vectors (about {round(size / 384 / 4, -3):,.0f} of 384 dimensions)" in README


def test_links_lead_somewhere():
    """Every file that the README names by a link is there."""
    linked = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert [name for name in linked if not (ROOT / name).exists()] == []
    assert [
        name for name in re.findall(r"`((?:notebooks|benchmarks)/[\w./]+)`", README) if not (ROOT / name).exists()
    ] == []
