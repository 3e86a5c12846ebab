"""The pages in docs/ are correct: their code prints what its comments promise, and links and tables are up to date."""

import ast
import functools
import importlib
import json
import re
import sys
import tomllib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.server.access import Token
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.stores.vectors import EXACT_BYTES
from tests.support.servers.running_service import running

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
HOW_TO = sorted(file for file in DOCS.glob("how-to/*.md") if file.name != "README.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ENGINES = (DOCS / "engines.md").read_text(encoding="utf-8")

# These pages need more than a runner, or are compared with old packages, in tests of their own.
TESTED_ELSEWHERE = {"configuration.md", "migration.md", "telemetry.md"}
PAGES = [*sorted(file for file in DOCS.glob("*.md") if file.name not in TESTED_ELSEWHERE), *HOW_TO]
NEEDS = {
    "choose-an-embedding": ["langchain_openai"],
    "chunk-size": ["ir_measures"],
    "evaluate": ["ir_measures"],
    "fastapi": ["fastapi"],
    "llama-index": ["llama_index.core"],
    "openai": ["langchain_openai"],
    "serve": ["fastapi", "uvicorn"],
}
FIXTURES = {"choose-an-embedding": "openai", "openai": "openai", "serve": "service", "streamlit": "streamlit"}


def blocks(language, page):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def promises(code):
    """Yield the line of each ``print(…)  # output`` and the output that the comment promises."""
    lines = code.splitlines()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            _, mark, comment = lines[node.end_lineno - 1][node.end_col_offset :].partition("#")
            if mark:
                yield node.lineno, comment.strip()


def matches(output, promise):
    """Return whether the output of a print matches its comment, in which ``…`` matches anything."""
    return re.fullmatch(".*".join(map(re.escape, promise.split("…"))), output, re.DOTALL) is not None


def broken_promises(path, namespace):
    """Run all blocks of a page in order; return the prints whose output does not match their comment.

    A print in a loop has several outputs, joined by ``; ``.
    """
    broken, checked = [], 0
    for code in blocks("python", path.read_text(encoding="utf-8")):
        outputs = {}

        def show(*values, sep=" ", outputs=outputs):
            outputs.setdefault(sys._getframe(1).f_lineno, []).append(sep.join(map(str, values)))

        namespace["print"] = show
        exec(compile(code, path.name, "exec"), namespace)
        for line, promise in promises(code):
            checked += 1
            output = "; ".join(outputs.get(line, ["(not run)"]))
            if not matches(output, promise):
                broken.append(f"{promise!r}, printed {output!r}")
    return broken, checked


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to an empty folder with one page of a guide in ``docs``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\nReset your password by the link in the mail.\n")
    return tmp_path


class Letters:
    """Encoding with one token per letter, instead of tiktoken's, which would be downloaded."""

    def encode_ordinary(self, text):
        return [ord(letter) for letter in text]

    encode = encode_ordinary


class EmbeddingsHandler(BaseHTTPRequestHandler):
    """Handler for OpenAI's embeddings endpoint; a vector counts the letters of its text."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [
            {"object": "embedding", "index": place, "embedding": [1.0 + tokens.count(ord("a") + n) for n in range(26)]}
            for place, tokens in enumerate(texts)
        ]
        body = json.dumps({"object": "list", "data": data, "model": "any", "usage": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture
def openai(monkeypatch):
    """Let OpenAI's client call a server on this machine."""
    with suppress(ImportError):
        monkeypatch.setattr("tiktoken.encoding_for_model", lambda model: Letters())
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingsHandler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("HYBRIDGRAPH_ALLOW_FACTORIES", "1")
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def service(monkeypatch):
    """Serve two texts, and set the variables with the address and the token."""
    store = HybridGraphStore.from_texts(["Invoices are sent monthly.", "A parcel takes two days."], "lsa")
    token = "a token of the service"
    with running(create_app(store, tokens=[Token(token=token)])) as url:
        monkeypatch.setenv("SEARCH_URL", url)
        monkeypatch.setenv("SEARCH_TOKEN", token)
        yield


@pytest.fixture
def streamlit(monkeypatch):
    """Install a module with the functions of Streamlit that the page calls, in which the user asks one question."""
    names = {
        "cache_resource": functools.cache,
        "sidebar": SimpleNamespace(slider=lambda label, least, most, value: value),
        "text_input": lambda label: "When are invoices sent?",
        "write": lambda *values: None,
    }
    monkeypatch.setitem(sys.modules, "streamlit", SimpleNamespace(**names))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_code_of_a_page_prints_what_its_comments_promise(request, folder, path):
    """The Python blocks of a page run in order, and every print matches its comment."""
    for module in NEEDS.get(path.stem, []):
        pytest.importorskip(module)
    if path.stem in FIXTURES:
        request.getfixturevalue(FIXTURES[path.stem])
    page = path.read_text(encoding="utf-8")
    for file in blocks("yaml", page):
        (folder / "hybridgraph.yaml").write_text(file, encoding="utf-8")
    broken, checked = broken_promises(path, {"__name__": "__main__"})
    assert broken == []
    if path in HOW_TO and blocks("python", page):
        assert checked


def test_the_code_of_the_readme_runs(folder, capsys):
    """Every Python block in the README runs unchanged and finds the text about error E-4711."""
    namespace = {}
    for code in blocks("python", README):
        exec(compile(code, "README.md", "exec"), namespace)
    namespace["store"].close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("Error E-4711: the card issuer asks for a second factor.")
    assert len([line for line in lines if "E-4711" in line]) == 2


def test_make_targets_exist():
    """The Makefile has every target that the README names."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_every_how_to_is_in_the_index():
    """docs/README.md links every how-to page with its title."""
    links = dict(re.findall(r"\[([^\]]+)\]\(how-to/([\w-]+\.md)\)", (DOCS / "README.md").read_text("utf-8")))
    titles = {path.read_text("utf-8").partition("\n")[0].removeprefix("# "): path.name for path in HOW_TO}
    assert len(titles) > 10
    assert links == titles


def test_every_page_is_in_the_index():
    """docs/README.md links every other page in docs/."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in DOCS.glob("*.md") if file.name != "README.md" and f"({file.name})" not in index] == []


WITH_LINKS = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("benchmarks/**/*.md")]


@pytest.mark.parametrize("path", WITH_LINKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_linked_files_and_headings_exist(path):
    """Linked files and headings exist, and so do the files named in code."""
    page = path.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    for file, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", prose):
        target = path.parent / file if file else path
        assert target.exists(), file
        if heading:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings]
    paths = re.findall(r"(?:`|python |faults )((?:notebooks|benchmarks|examples|tests)/[\w./]+\.\w+)", page)
    assert [file for file in paths if not (ROOT / file).exists()] == []


def test_every_benchmark_is_in_the_summary():
    """benchmarks/README.md has a row with the command of each program, and links each page."""
    summary = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    programs = [file.name for file in ROOT.glob("benchmarks/[!_]*.py")]
    pages = [file.name for file in ROOT.glob("benchmarks/*.md") if file.name != "README.md"]
    assert len(programs) > 10
    assert [name for name in programs if f"`python benchmarks/{name}" not in summary] == []
    assert [name for name in pages if f"({name})" not in summary] == []


def test_names_in_the_package_exist():
    """Every ``langchain_hybridgraph.module.name`` in the pages can be imported."""
    pages = "".join(path.read_text(encoding="utf-8") for path in WITH_LINKS if path.name != "CHANGELOG.md")
    names = set(re.findall(r"`(langchain_hybridgraph(?:\.\w+)+)", pages))
    assert names
    for name in sorted(names):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


def test_every_extra_is_in_the_table():
    """The table of extras lists exactly the extras in pyproject.toml, except dev."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = ENGINES.partition("\n## Extras\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)} == extras.keys() - {"dev"}


def test_the_size_of_the_exact_search_is_that_of_the_code():
    """docs/engines.md has the size at which exact search ends."""
    assert (
        f"{EXACT_BYTES >> 20} MB of vectors (about {round(EXACT_BYTES / 384 / 4, -3):,.0f} of 384 dimensions)"
        in ENGINES
    )


@pytest.mark.parametrize(("name", "least"), [("README.md", 10), ("benchmarks/README.md", 20)])
def test_the_figures_are_those_of_the_benchmarks(name, least):
    """Every measure of quality in the tables appears in the pages of the benchmarks."""
    pages = [path for path in ROOT.glob("benchmarks/*.md") if path.name != "README.md"]
    measured = "".join(path.read_text(encoding="utf-8") for path in pages)
    measures = {f"{float(figure):.3f}"[1:] for figure in re.findall(r"(?<![\d.])\.\d{3,4}\b", measured)}
    rows = [row for row in (ROOT / name).read_text(encoding="utf-8").splitlines() if row.startswith("|")]
    figures = set(re.findall(r"(?<![\d.])\.\d{3}\b", "\n".join(rows)))
    assert len(figures) > least
    assert figures - measures == set()
