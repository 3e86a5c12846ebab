"""README.md and the pages that it leads to are true: their code runs, their tables are those of the code."""

import json
import re
import shlex
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from langchain_hybridgraph.cli.commands import app
from langchain_hybridgraph.stores.embedded.index_folder import MATRIX_BYTES
from langchain_hybridgraph.stores.engines.vector_matrix import EXACT_BYTES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
ENGINES = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
PAGES = ["docs/retrievers.md", "docs/llama-index.md"]  # the other pages have tests of their own


HOW_TO = sorted(file for file in ROOT.glob("docs/how-to/*.md") if file.name != "README.md")


def blocks(language, page=README):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(name, page):
    """All Python of a page, one block after the other."""
    namespace = {}
    for code in blocks("python", page):
        exec(compile(code, name, "exec"), namespace)
    return namespace


def test_python_runs(folder, capsys):
    """Every Python block runs as it stands, and the code is found, with a store and over Chroma."""
    run("README.md", README)["store"].close()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].endswith("Error E-4711: the card issuer asks for a second factor.")
    assert len([line for line in shown if "E-4711" in line]) == 2


def test_the_tours_python_runs(folder, capsys):
    """Every block runs, one after the other, and shows what it says."""
    for file in blocks("yaml", TOUR):
        (folder / "hybridgraph.yaml").write_text(file, encoding="utf-8")
    run("docs/tour.md", TOUR)["configured"].vector_store.close()
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].endswith("Error E-4711: the card issuer asks for a second factor.")
    assert "found by" in shown
    promises = re.findall(r"^print\(.*\)  # (The .*|Ada .*)$", TOUR, re.MULTILINE)
    assert len(promises) == 3
    assert [promised for promised in promises if promised.rstrip(" …") not in shown] == []


def test_a_newcomer_reads_the_readme_in_five_minutes():
    """At 200 words a minute, commands and code included."""
    assert len(re.findall(r"\w[\w'.-]*", README)) <= 1_100


@pytest.mark.parametrize("name", PAGES)
def test_a_pages_python_runs(folder, name):
    """Each page stands by itself."""
    if name == "docs/llama-index.md":
        pytest.importorskip("llama_index.core")
    namespace = {}
    code = blocks("python", (ROOT / name).read_text(encoding="utf-8"))
    assert code
    for block in code:
        exec(compile(block, name, "exec"), namespace)


class Letters:
    """An encoding whose tokens are letters, in place of tiktoken's, which is downloaded."""

    def encode_ordinary(self, text):
        return [ord(letter) for letter in text]

    encode = encode_ordinary


class Embeds(BaseHTTPRequestHandler):
    """What OpenAI's embeddings answer: a vector of the letters of each text."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [
            {"object": "embedding", "index": place, "embedding": [1.0 + tokens.count(ord("a") + n) for n in range(26)]}
            for place, tokens in enumerate(asked)
        ]
        body = json.dumps({"object": "list", "data": data, "model": "any", "usage": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing on the screen."""


@pytest.fixture
def openai(monkeypatch):
    """OpenAI is on this machine."""
    with suppress(ImportError):
        monkeypatch.setattr("tiktoken.encoding_for_model", lambda model: Letters())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeds)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield
    server.shutdown()


@pytest.mark.parametrize("path", HOW_TO, ids=lambda path: path.stem)
def test_a_how_to_does_what_it_says(folder, openai, capsys, path):
    """Its blocks run in an empty folder, and every print gives what its comment says."""
    page = path.read_text(encoding="utf-8")
    needed = {"fastapi": "fastapi", "choose-an-embedding": "langchain_openai", "chunk-size": "ir_measures"}
    if path.stem in needed:
        pytest.importorskip(needed[path.stem])
    run(path.name, page)
    shown = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^ *print\(.*\)  # (.*)$", "".join(blocks("python", page)), re.MULTILINE)
    assert promised
    assert shown[: len(promised)] == promised


def test_every_how_to_is_listed():
    """docs/how-to/README.md links every page, by its title."""
    listed = re.findall(r"^\| \[(.*?)\]\((.*?)\)", (ROOT / "docs/how-to/README.md").read_text("utf-8"), re.MULTILINE)
    titles = {path.name: path.read_text("utf-8").partition("\n")[0].removeprefix("# ") for path in HOW_TO}
    assert {file: title for title, file in listed} == titles


def test_the_start_is_five_lines():
    """From texts to an answer, not counting imports."""
    lines = [line for line in blocks("python")[0].splitlines() if line and not line.startswith(("from", "import"))]
    assert len(lines) <= 5


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/command-line.md"])
def test_commands_run(folder, name):
    """Every hybridgraph command runs, one after the other, over a folder of files."""
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nReset your password by the link in the mail.\n")
    (folder / "docs" / "faq.txt").write_text("A parcel takes two days.\n")
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


def test_make_targets_are_there():
    """What the README tells make to do, the Makefile can."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_sizes_of_the_ways_to_search():
    """Up to which size the vectors are all compared, and from which on Chroma is asked, is what the code says."""
    for size in (EXACT_BYTES, MATRIX_BYTES):
        assert f"{size >> 20} MB of vectors (about {round(size / 384 / 4, -3):,.0f} of 384 dimensions)" in ENGINES


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", *(str(file.relative_to(ROOT)) for file in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(name):
    """Every file that a page names by a link is there, and every heading in it; so are the files named in code."""
    page = (ROOT / name).read_text(encoding="utf-8")
    for file, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page):
        target = (ROOT / name).parent / file if file else ROOT / name
        assert target.exists(), file
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        slugs = [re.sub(r"[^\w -]", "", said.lower()).replace(" ", "-") for said in headings]
        assert not heading or heading in slugs, heading
    named = re.findall(r"`(?:python )?((?:notebooks|benchmarks|examples)/[\w./]+)", page)
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_every_extra_stands_in_the_table():
    """The table of extras is that of pyproject.toml."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = ENGINES.partition("\n## Extras\n")[2].partition("\n## ")[0]
    named = [
        name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)
    ]
    assert set(named) == extras.keys() - {"dev"}


@pytest.mark.parametrize(("page", "least"), [(README, 10), (FIGURES, 20)])
def test_the_figures_are_those_of_the_benchmarks(page, least):
    """Every measure of quality in the tables stands in benchmarks/README.md, to three places."""
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = page.splitlines()
    there = {f"{float(found):.3f}"[1:] for found in re.findall(r"(?<![\d.])\.\d{3,4}\b", measured)}
    named = set(re.findall(r"(?<![\d.])\.\d{3}\b", "\n".join(row for row in rows if row.startswith("|"))))
    assert len(named) > least
    assert named - there == set()


def test_the_pages_are_all_named():
    """Every page in docs/ is linked from the README."""
    assert [file.name for file in ROOT.glob("docs/*.md") if f"(docs/{file.name}" not in README] == []
