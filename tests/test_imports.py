"""Modules import only from their own folder and from folders earlier in one list."""

import ast
import importlib
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.servers.python_process import output_of_python

PACKAGE = "langchain_hybridgraph"
ROOT = Path(__file__).parent.parent / PACKAGE

# Folders and top-level modules from bottom to top; each imports only itself and names that come before it.
ORDER = [
    *("errors", "degradation", "times"),
    *("registry", "settings_file", "text"),
    *("filters", "chunks", "records", "execution", "memory_scores", "stores", "display", "search"),
    *("embeddings", "ingestion", "telemetry", "options", "settings", "adapters", "result", "vectorstores"),
    *("retrievers", "langgraph", "llama_index", "evaluation", "migration", "server", "cli"),
]
BELOW_LANGCHAIN = ORDER[: ORDER.index("embeddings")]

# Each third-party engine, and the modules that may import it.
ENGINES = {
    "chromadb": {"embeddings.resolve"},
    "tantivy": {"stores.tantivy_index", "text.analyzer"},
    "pymilvus": {"stores.milvus.connection", "stores.milvus.schema"},
    "rank_bm25": {"stores.bm25"},
    "scipy": {"embeddings.lsa", "evaluation"},
    "sentence_transformers": {"search.rerankers"},
    "prometheus_client": {"telemetry", "server.guard", "server.app", "server.service"},
    "watchfiles": {"cli.serve"},
    "opentelemetry": {"telemetry"},
    "markdown_it": {"ingestion.markdown"},
    "yaml": {"settings_file", "ingestion.markdown"},
}


class Import(NamedTuple):
    importer: str
    imported: str
    early: bool  # runs when the module is imported


@cache  # computed by the first test that needs it, because not every worker runs one
def modules():
    """Return the syntax trees of the modules by dotted name within the package, "" for the package itself."""
    trees = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def imports_in(node, importer, early=True):
    """Yield every import below a syntax node, including those inside functions and for type checkers only.

    A module of the package that is named by a string counts as a late import.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(importer, alias.name, early) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, f"{importer}: use absolute imports"
            yield from (Import(importer, target, early) for target in targets_of(child))
        else:
            if target := module_named_by(child):
                yield Import(importer, target, False)
            late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from imports_in(child, importer, early and not late)


def targets_of(statement):
    """Yield the imported modules: in ``from package import name``, the name may be a module of the package."""
    for alias in statement.names:
        path = f"{statement.module}.{alias.name}".removeprefix(f"{PACKAGE}.").replace(".", "/")
        is_module = statement.module.startswith(PACKAGE) and (
            (ROOT / f"{path}.py").exists() or (ROOT / path / "__init__.py").exists()
        )
        yield f"{statement.module}.{alias.name}" if is_module else statement.module


def module_named_by(node):
    """Return the module of the package that an ``import_module`` call or a string such as ``search.rerankers:Name``
    names.

    None if it names none. Tables of names contain such strings, whose modules are imported when the name is used.
    """
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        target = re.fullmatch(rf"'{PACKAGE}\.([\w.]+)'", ast.unparse(node.args[0]))
    else:
        target = isinstance(node, ast.Constant) and re.fullmatch(r"([\w.]+):\w+", str(node.value))
    path = target and target[1].replace(".", "/")
    is_module = path and ((ROOT / f"{path}.py").exists() or (ROOT / path / "__init__.py").exists())
    return f"{PACKAGE}.{target[1]}" if is_module else None


@cache
def imports():
    return [each for name, tree in modules().items() for each in imports_in(tree, name)]


@cache
def internal_imports():
    return [
        Import(importer, imported.removeprefix(PACKAGE).lstrip("."), early)
        for importer, imported, early in imports()
        if imported.split(".")[0] == PACKAGE
    ]


def violations(rule):
    """Return the imports within the package that break a rule."""
    return [f"{each.importer} imports {each.imported}" for each in internal_imports() if not rule(each)]


def folder(module):
    """Return the first part of a module's name: its folder, or itself at the top level."""
    return module.split(".")[0]


def test_the_order_is_complete():
    """Every folder and top-level module of the package appears once in the order."""
    assert sorted(ORDER) == sorted({folder(name) for name in modules() if name})


def test_imports_point_down():
    """A module imports only from its own folder and earlier ones, including late and type-only imports."""
    place = {name: at for at, name in enumerate(["", *ORDER])}  # the package itself imports its names when used
    assert violations(lambda each: place[folder(each.imported)] <= place[folder(each.importer)]) == []


def test_folders_form_at_most_nine_layers():
    """The longest chain of imports, in which top-level modules do not count, leads through nine folders."""
    depth = {}
    for name in ORDER:
        below = {folder(each.imported) for each in internal_imports() if folder(each.importer) == name} - {name, ""}
        depth[name] = (ROOT / name).is_dir() + max((depth[other] for other in below), default=0)
    assert max(depth.values()) <= 9, depth


def test_there_are_no_import_cycles():
    """No two modules import each other, directly or through others, including late and type-only imports."""
    imported_by = {
        name: {each.imported for each in internal_imports() if each.importer == name} for name in modules() if name
    }
    assert len(list(TopologicalSorter(imported_by).static_order())) >= len(imported_by)


def test_protocols_depend_on_no_store():
    """The protocols of stores import none of the stores that implement them, only the tree that all of them return."""
    protocols = [each for each in internal_imports() if each.importer.startswith("stores.protocols")]
    assert protocols
    outside = [each for each in protocols if not each.imported.startswith("stores.protocols")]
    assert {each.imported for each in outside if folder(each.imported) == "stores"} == {"stores.tree"}


def test_searches_depend_on_no_store():
    """Modules of ``search`` import no store, only the protocols of stores and the tree that stores return."""
    uses = [
        each for each in internal_imports() if folder(each.importer) == "search" and folder(each.imported) == "stores"
    ]
    assert {each.imported for each in uses} == {"stores.protocols", "stores.tree"}


def test_only_commands_import_the_server():
    """The server, whose libraries are an extra, is imported only by the command line, and not until it is used."""
    uses = [
        each for each in internal_imports() if folder(each.imported) == "server" and folder(each.importer) != "server"
    ]
    assert {each.importer for each in uses} == {"cli.app", "cli.serve"}
    assert [each for each in internal_imports() if each.imported == "cli.serve" and each.early] == []


def test_core_folders_do_not_import_langchain():
    """Records, stores and queries work without LangChain, and nothing imports its discontinued packages."""
    langchain = [
        each for each in imports() if each.imported.startswith("langchain") and folder(each.imported) != PACKAGE
    ]
    assert langchain
    assert [each for each in langchain if folder(each.importer) in BELOW_LANGCHAIN] == []
    assert [each for each in langchain if folder(each.imported) in {"langchain_community", "langchain_classic"}] == []


@pytest.mark.parametrize("library", ENGINES)
def test_engines_are_imported_late_in_their_own_modules(library):
    """An engine's library is imported only in its own modules, and only when it is used."""
    uses = [each for each in imports() if folder(each.imported) == library]
    assert uses
    assert {each.importer for each in uses} <= ENGINES[library]
    assert [each for each in uses if each.early] == []


def test_no_module_imports_private_names_of_another():
    """No module imports a name that begins with an underscore."""
    private = [
        f"{name} imports {alias.name} of {node.module}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and folder(node.module) == PACKAGE
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]
    assert private == []


def test_importing_the_package_is_light():
    """``import langchain_hybridgraph`` loads neither LangChain nor an engine nor Pydantic."""
    heavy = {*ENGINES, "langchain_core", "langchain_chroma", "numpy", "pydantic", "typer", "rich"}
    heavy |= {"fastapi", "grpc", "httpx", "uvicorn"}
    code = f"import sys, {PACKAGE}; print(sorted({heavy!r} & sys.modules.keys()))"
    assert output_of_python("-c", code).strip() == "[]"


@pytest.mark.parametrize("name", [PACKAGE, *(f"{PACKAGE}.{each}" for each in ("ingestion", "embeddings", "filters"))])
def test_all_public_names_can_be_imported(name):
    """Each name that a package lists for type checkers can be imported from it."""
    package = importlib.import_module(name)
    stub = Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    aliases = re.findall(rf"^from {re.escape(name)}\.\S+ import (\w+) as (\w+)$", stub, re.MULTILINE)
    assert len(aliases) > 5
    assert sorted(public for public, _ in aliases) == sorted({*package.__all__} - {"__version__"})
    assert [alias for public, alias in aliases if alias != public] == []
    assert [public for public in package.__all__ if getattr(package, public) is None] == []


def test_benchmarks_can_be_imported():
    """No benchmark uses a name that the package no longer has."""
    folder = ROOT.parent / "benchmarks"
    names = sorted(file.stem for file in folder.glob("*.py"))
    code = f"import importlib, sys; sys.path.insert(0, {str(folder)!r}); [*map(importlib.import_module, {names!r})]"
    assert names
    output_of_python("-W", "ignore", "-c", code)
