"""Contents of the published package, and errors for extras that are not installed."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "langchain_hybridgraph"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

MISSING = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
"""
STORE = """
from langchain_core.documents import Document
from langchain_hybridgraph import *
store = HybridGraphStore()
ingest([Document("Cats purr.", id="cat"), Document("Dogs bark at cats.", id="dog")], store)
"""
# Each extra: the modules that it brings, and code that needs them.
FEATURES = {
    "cli": ("typer rich", "sys.argv = ['hybridgraph', '--help']; from langchain_hybridgraph.cli import main; main()"),
    "notebook": (
        "matplotlib networkx",
        "from langchain_hybridgraph import display; display.draw(GraphRetriever(store).retrieve('Who barks?'))",
    ),
    "rerank": ("sentence_transformers", "from langchain_hybridgraph import *; CrossEncoderReranker()"),
    "langgraph": (
        "langgraph",
        "from langchain_hybridgraph.langgraph import HybridGraphMemory\n"
        "memory = HybridGraphMemory()\nmemory.put(('ada',), 'tea', {'text': 'green tea'})\n"
        "assert memory.search(('ada',), query='tea')[0].key == 'tea'",
    ),
    "llama-index": (
        "llama_index",
        "from langchain_hybridgraph.llama_index import LlamaIndexRetriever\n"
        "assert LlamaIndexRetriever(HybridRetriever(store)).retrieve('Who barks?')[0].node_id == 'dog#0'",
    ),
    "mcp": (
        "mcp",
        "from langchain_hybridgraph.server.access import Tokens\n"
        "from langchain_hybridgraph.server.mcp import create_server\nimport asyncio\n"
        "server = create_server(lambda tenant: store, Tokens())\n"
        "assert 'Dogs' in asyncio.run(server.call_tool('search', {'query': 'Who barks?'})).content[0].text",
    ),
    "milvus": (
        "pymilvus grpc",
        "import tempfile\nfrom langchain_hybridgraph import HybridRetriever, MilvusStore\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    from langchain_core.embeddings import DeterministicFakeEmbedding\n"
        "    with MilvusStore(folder + '/milvus.db', DeterministicFakeEmbedding(size=8)) as held:\n"
        "        held.add_texts(['Dogs bark at cats.'])\n"
        "        assert len(HybridRetriever(held).invoke('Who barks?')) == 1\n",
    ),
    "prometheus": (
        "prometheus_client",
        "HybridRetriever(store, telemetry={'sinks': [PrometheusSink()]}).invoke('Who barks?')",
    ),
    "server": (
        "fastapi watchfiles prometheus_client",
        "from langchain_hybridgraph.server.app import create_app\ncreate_app(store)",
    ),
    "grpc": ("grpc", "from langchain_hybridgraph.server import rpc"),
    "otel": (
        "opentelemetry",
        "HybridRetriever(store, telemetry={'sinks': [OpenTelemetrySink()]}).invoke('Who barks?')",
    ),
}
MODULES = sorted({module for modules, _ in FEATURES.values() for module in modules.split()})
# Extras that this process does not import: they are for benchmarks, the user's own programs and the process that
# reads documents (tests/ingestion/test_document_readers.py).
FOR_OTHERS = {"eval", "community", "documents", "all", "dev"}


def run(code, missing=()):
    program = MISSING.format(missing=list(missing)) + (STORE if "store" in code else "") + code
    return subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return a wheel built from this repository."""
    builders = pytest.importorskip("hatchling.builders.wheel")
    (path,) = builders.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Return the folder of an unpacked source distribution built from this repository."""
    builders = pytest.importorskip("hatchling.builders.sdist")
    folder = tmp_path_factory.mktemp("sdist")
    (path,) = builders.SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return unpacked


def modules(folder):
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*.py*") if file.suffix in (".py", ".pyi")}


# -- published files ----------------------------------------------------------------------------------------------


def test_the_wheel_contains_only_the_package(wheel):
    """The wheel contains all modules of the package, py.typed, its schemas and its word lists, and nothing else."""
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    others = {
        "py.typed",
        "embeddings/topics_english.txt",
        "text/english_words.txt",
        "search/small_talk.txt",
        "server/hybridgraph.binpb",
        "server/hybridgraph.proto",
        "server/page.html",
        "stores/schema.sql",
        "text/function_words.txt",
    }
    assert names == {f"langchain_hybridgraph/{name}" for name in {*modules(PACKAGE), *others}}


def test_the_metadata_of_the_wheel(wheel):
    """The wheel's metadata has name, licence, Python version, extras, command and the README."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    expected = {"Name": "langchain-hybridgraph", "License-Expression": "MIT", "Requires-Python": ">=3.11"}
    assert {name: metadata[name] for name in expected} == expected
    assert set(metadata.get_all("Provides-Extra")) == set(EXTRAS)
    assert metadata.get_payload().startswith("# langchain-hybridgraph")
    folder = name.rpartition("/")[0]
    assert "hybridgraph = langchain_hybridgraph.cli:main" in wheel.read(f"{folder}/entry_points.txt").decode()
    assert wheel.read(f"{folder}/licenses/LICENSE").decode().startswith("MIT License")


def test_the_sdist_is_complete(sdist):
    """The source distribution contains the package, tests, examples, notebooks, benchmarks and pages."""
    for folder in ("langchain_hybridgraph", "tests", "examples", "benchmarks"):
        assert modules(sdist / folder) == modules(ROOT / folder)
    for kind in ("docs/**/*.md", "notebooks/*.ipynb", "dashboards/*.json", "benchmarks/*.json"):
        there, here = ({str(file.relative_to(base)) for file in base.glob(kind)} for base in (sdist, ROOT))
        assert there == here != set()
    names = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "pyproject.toml"]
    assert [name for name in names if not (sdist / name).is_file()] == []


def test_the_sdist_builds_the_same_wheel(sdist, wheel, tmp_path):
    """A wheel built from the source distribution has the same files as one built from the repository."""
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(sdist)).build(directory=str(tmp_path), versions=["standard"])
    assert sorted(zipfile.ZipFile(path).namelist()) == sorted(wheel.namelist())


def test_the_versions_agree():
    """The package and pyproject.toml have the same version."""
    from langchain_hybridgraph import __version__

    assert __version__ == PROJECT["version"]


# -- missing extras --------------------------------------------------------------------------------------------


def test_no_extra_is_needed():
    """All public names can be imported without extras, and every retriever returns hits."""
    done = run(
        """
import tempfile, langchain_hybridgraph
assert all(getattr(langchain_hybridgraph, name) is not None for name in langchain_hybridgraph.__all__)
for kind in (HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever):
    assert kind(store).invoke("Who barks?")[0].page_content.startswith("Dogs"), kind
assert AdvancedRetriever(HybridRetriever(store)).invoke("Who barks?")
HybridRetriever(store).retrieve("Who barks?")._repr_html_()
with tempfile.TemporaryDirectory() as folder, HybridGraphStore(folder + "/index") as kept:
    ingest([Document("Cats purr.")], kept, progress=True)
print("ok")
""",
        set(MODULES) - {"typer", "rich", "opentelemetry"},  # chromadb brings them along
    )
    assert done.stdout.strip() == "ok", done.stderr


@pytest.mark.parametrize("feature", FEATURES)
def test_a_missing_extra_names_the_line_to_install(feature):
    """The error for a missing extra has the line that installs it."""
    names, code = FEATURES[feature]
    done = run(code, names.split())
    assert done.returncode != 0
    extra = feature.partition(",")[0]
    assert f'pip install "langchain-hybridgraph[{extra}]"' in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("feature", FEATURES)
def test_every_extra_alone_is_enough(feature):
    """A feature works with the modules of its own extra and without those of the others."""
    names, code = FEATURES[feature]
    for name in names.split():
        pytest.importorskip(name)
    if feature == "rerank":
        code = "import sentence_transformers"  # a model would be downloaded; tests/search/test_reranking.py has one
    installed = {"typer", "rich", "opentelemetry", *names.split()}  # the first three come with chromadb
    done = run(code, set(MODULES) - installed)
    assert done.returncode == 0, done.stderr


def test_every_extra_is_tested():
    """Every extra has a feature in the table above or is excluded from it."""
    assert {feature.partition(",")[0] for feature in FEATURES} | FOR_OTHERS == set(EXTRAS)


def test_extras_named_in_messages_and_pages_exist():
    """Every extra that a message or page names exists in pyproject.toml."""
    pages = [*PACKAGE.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
    names = {
        extra
        for page in pages
        for extras in re.findall(r"langchain-hybridgraph\[([\w,-]+)\]", page.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert names
    assert names - set(EXTRAS) == set()


def test_all_contains_every_other_extra():
    """``all`` contains every extra except dev and community."""
    (everything,) = EXTRAS["all"]
    names = set(re.findall(r"\[(.*)\]", everything)[0].split(","))
    assert names == set(EXTRAS) - {"all", "dev", "community"}
