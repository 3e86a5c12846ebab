"""Imports point down: the direction of ARCHITECTURE.md, read from the sources."""

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "langchain_hybridgraph"
ROOT = Path(__file__).parent.parent / PACKAGE

# Modules that anything may import, next to all of ``text``.
GROUND = {
    *("chunk_metadata", "degradation", "errors", "filters", "forking", "records"),
    *("serialization", "steps", "times", "uris"),
}
# How stages wait, are named, report, ask models.
PLUMBING = {f"query.{name}" for name in ("asynchronous", "effects", "llm_calls", "trace", "workers")} | {
    "registry",
    "structured_output",
}
RIM = (
    *("telemetry", "adapters", "retrievers", "ingestion", "embeddings", "cli", "llama_index"),
    *("testing", "evaluation", "tuning", "display"),
)
# An answer shows itself where a notebook asks it to, and is read from JSON as Documents; a search never gets there.
OF_THE_RIM = {("records", "display.html_table", False), ("records", "adapters.documents", False)}
ENGINES = {
    "chromadb": {"stores.engines.chroma", "embeddings.minilm"},
    "tantivy": {"stores.engines.tantivy", "text.analyzer"},
    "rank_bm25": {"stores.engines.rank_bm25"},
    "scipy": {"embeddings.lsa"},
    "sentence_transformers": {"query.rerank"},
    "prometheus_client": {"telemetry.prometheus"},
    "opentelemetry": {"telemetry.opentelemetry"},
    "markdown_it": {"ingestion.markdown"},
    "yaml": {"config.file", "ingestion.front_matter"},
}


class Import(NamedTuple):
    by: str
    of: str
    early: bool  # runs when the module is imported


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports_in(node, by, early=True):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(by, alias.name, early) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, f"{by}: relative imports hide their direction"
            yield from (Import(by, target, early) for target in _targets(child))
        else:
            late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from imports_in(child, by, early and not late)


def _targets(node):
    """``from package import name`` may name a module of the package."""
    for alias in node.names:
        below = f"{node.module}.{alias.name}".removeprefix(f"{PACKAGE}.").replace(".", "/")
        is_module = node.module.startswith(PACKAGE) and (ROOT / f"{below}.py").exists()
        yield f"{node.module}.{alias.name}" if is_module else node.module


IMPORTS = [found for name, tree in modules() for found in imports_in(tree, name)]
OWN = [
    Import(by, of.removeprefix(PACKAGE).lstrip("."), early) for by, of, early in IMPORTS if of.split(".")[0] == PACKAGE
]


def broken(rule):
    return [f"{found.by or PACKAGE} imports {found.of}" for found in OWN if not rule(found)]


def is_ground(module):
    return module in GROUND or module.split(".")[0] == "text"


def at_rim(module):
    return module == "" or module.split(".")[0] in RIM  # "" is the package itself with its lazy names


def test_the_ground_stands_on_nothing():
    """Records, filters, errors and times know only each other."""
    assert broken(lambda i: not is_ground(i.by) or is_ground(i.of) or i in OF_THE_RIM) == []


def test_stores_know_no_query():
    """A store imports the ground and stores; the protocols in ``stores.protocols`` the ground alone."""
    assert broken(lambda i: i.by != "stores.protocols" or is_ground(i.of)) == []
    assert broken(lambda i: not i.by.startswith("stores.") or is_ground(i.of) or i.of.startswith("stores.")) == []


# The searches, which are made of stages.
SEARCHES = {"query.pipeline", "query.hierarchy"}
STAGE_OF = {
    "query.graph.scores": "query.graph",
    "query.graph.expansion": "query.graph",
    "query.conversation.history": "query.conversation",
    "query.conversation": "query.conversation",
    "query.planning": "query.conversation",
}


def stage(module):
    """A stage is a module or a package of ``query``; walking, what it is worth and what becomes of it are one.

    So are reading a conversation, making its last question whole and planning what to search for in answer to it.
    """
    name = ".".join(module.split(".")[:2])
    return STAGE_OF.get(name, name)


def test_no_stage_imports_a_stage():
    """A stage imports itself, the ground, the store's protocols and the plumbing: each could be left out."""
    allowed = PLUMBING | {"stores.protocols"}
    inside = [i for i in OWN if i.by.startswith("query.") and stage(i.by) not in SEARCHES]
    assert [i for i in inside if not is_ground(i.of) and i.of not in allowed and stage(i.of) != stage(i.by)] == []


def test_searches_import_no_engine():
    """A search imports stages and protocols, never an engine or the rim."""
    allowed = {"stores.protocols", "memory.scoring", *PLUMBING}
    below = [i for i in OWN if stage(i.by) in SEARCHES and not is_ground(i.of)]
    assert [i for i in below if i.of not in allowed and not i.of.startswith("query.")] == []


def test_nobody_imports_the_rim_but_the_rim():
    """What is offered to LangChain, LlamaIndex and the shell is imported by nothing below it."""
    assert broken(lambda i: at_rim(i.by) or not at_rim(i.of) or i in OF_THE_RIM) == []


def test_langchain_is_at_the_rim_only():
    """langchain_core is imported at the rim, the sunset packages nowhere."""
    langchain = [i for i in IMPORTS if i.of.startswith("langchain") and not i.of.startswith(PACKAGE)]
    assert [i for i in langchain if not at_rim(i.by)] == []
    assert [i for i in langchain if i.of.split(".")[0] in {"langchain_community", "langchain_classic"}] == []


@pytest.mark.parametrize("library", ENGINES)
def test_an_engine_is_imported_late_in_its_own_file(library):
    """An engine's library is imported by its file only, and only when it is used."""
    found = [i for i in IMPORTS if i.of.split(".")[0] == library]
    assert {i.by for i in found} <= ENGINES[library]
    assert [i for i in found if i.early] == []


def test_nothing_runs_in_a_circle():
    """No module imports, early, late or for its types, what imports it; but for the package, whose names are lazy."""
    above = {
        name: {i.of for i in OWN if i.by == name and i.of and i not in OF_THE_RIM} for name, _ in modules() if name
    }
    assert list(TopologicalSorter(above).static_order())


def test_what_is_private_stays_at_home():
    """No module imports a name of another one that begins with an underscore."""
    private = [
        f"{name} imports {alias.name} of {node.module}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == PACKAGE
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]
    assert private == []


def test_the_check_sees_what_it_should():
    """Early, late and type-only imports are told apart, and a module after ``from package`` is seen."""
    source = (
        "import numpy\nfrom langchain_hybridgraph.query import rerank\n"
        "if TYPE_CHECKING:\n    import scipy\n"
        "class A:\n    import yaml\n    def f(self):\n        import chromadb\n"
    )
    assert list(imports_in(ast.parse(source), "x")) == [
        ("x", "numpy", True),
        ("x", f"{PACKAGE}.query.rerank", True),
        ("x", "scipy", False),
        ("x", "yaml", True),
        ("x", "chromadb", False),
    ]


def test_importing_the_package_is_light():
    """``import langchain_hybridgraph`` loads neither LangChain nor an engine nor pydantic."""
    heavy = {*ENGINES, "langchain_core", "langchain_chroma", "numpy", "pydantic", "typer", "rich"}
    code = f"import sys, {PACKAGE}; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    """Each name that the package lists can be had."""
    package = importlib.import_module(PACKAGE)
    assert [name for name in package.__all__ if getattr(package, name) is None] == []
