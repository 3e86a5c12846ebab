"""Names of the pipeline's stages in code, traces and documentation."""

import ast
import inspect
import re
from pathlib import Path

import langchain_hybridgraph
from langchain_hybridgraph.search import pipeline
from langchain_hybridgraph.search.pipeline import search

ROOT = Path(langchain_hybridgraph.__file__).parent


# Public functions that take the context, as stages do.
FUNCTIONS = {name: each for name, each in vars(pipeline).items() if inspect.isfunction(each) and name[0] != "_"}
STAGES = {
    name
    for name, function in FUNCTIONS.items()
    if function.__module__ == pipeline.__name__ and next(iter(inspect.signature(function).parameters), "") == "context"
} & set(search.__code__.co_names)


def stages():
    """Return the names of the stages in the order in which ``search`` runs them."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(search))) if is_call_by_name(node)]
    lines = {node.func.id: node.lineno for node in calls}
    return sorted(STAGES.intersection(lines), key=lines.get)


def is_call_by_name(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def traced_names(path):
    """Return the names of the trace entries that a module writes."""
    return set(re.findall(r'trace\.stage\("([^"]+)"\)', path.read_text(encoding="utf-8")))


def test_the_trace_has_the_names_of_the_stages():
    """Each stage writes one trace entry with its own name; ``context.py`` writes those of ``admit`` and ``parents``."""
    assert len(STAGES) > 10
    traced = {path.stem: traced_names(path) for path in (ROOT / "search").glob("*.py")}
    assert traced["context"] == {"admit", "parents"}
    assert traced["pipeline"] | traced["context"] == STAGES


def test_no_stage_calls_another():
    """Each stage can be read and removed without the others."""
    for name in STAGES:
        calls = filter(is_call_by_name, ast.walk(ast.parse(inspect.getsource(getattr(pipeline, name)))))
        assert {call.func.id for call in calls} & STAGES <= {name}


def test_the_architecture_lists_the_stages():
    """ARCHITECTURE.md lists the stages in order and describes each of them."""
    text = (ROOT.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    main_path = [name for name in stages() if name != "list_matches"]
    assert re.search(r"```\n(gather .*)\n```", text)[1].split(" → ") == main_path
    assert re.search(r"question → plan → (gather [^`]*?) → Documents", text)[1].split() == " → ".join(main_path).split()
    assert set(re.findall(r"\*\*([a-z_]+)\*\*", text)) >= STAGES


def test_the_telemetry_page_lists_the_stages():
    """The table on the telemetry page explains every name of a trace entry."""
    table = (ROOT.parent / "docs" / "telemetry.md").read_text(encoding="utf-8").partition("## Stages")[2]
    names = set(re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert names == {name for path in ROOT.rglob("*.py") for name in traced_names(path)}
    assert names >= STAGES
