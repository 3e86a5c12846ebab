"""Degradation reasons: the table of reasons is complete and documented."""

import ast
from pathlib import Path

import pytest

from langchain_hybridgraph.degradation import REASONS, degradation, warnings_in
from langchain_hybridgraph.result import RetrievalResult

ROOT = Path(__file__).parent.parent
ANSWERS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def reasons_in(tree):
    """Yield the literals that a module passes to ``degrade``, or assigns or returns as a ``reason``."""
    for node in ast.walk(tree):
        places = []
        if isinstance(node, ast.Call):
            places += [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "degrade":
                places += node.args[:1]
        elif isinstance(node, ast.Assign):
            targets = {ast.unparse(target).rpartition(".")[2] for target in node.targets}
            places += [node.value] if targets & {"reason", "short"} else []
        elif isinstance(node, ast.FunctionDef) and node.name == "reason":
            places += [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
        for place in places:
            values = [place.body, place.orelse] if isinstance(place, ast.IfExp) else [place]
            yield from (value.value for value in values if isinstance(value, ast.Constant) and value.value)


def test_every_reason_in_the_code_is_in_the_table():
    """Every reason reported in the package has a level and a meaning in the table."""
    reasons = {
        reason
        for file in (ROOT / "langchain_hybridgraph").rglob("*.py")
        for reason in reasons_in(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert {"interleaved", "keyword-fallback", "filter-post-applied", "no-graph-store", "no-edges"} <= reasons
    assert reasons - set(REASONS) == set()


def test_the_documentation_has_the_table():
    """docs/results.md lists every reason with its level and meaning."""
    rows = [f"| `{each.name}` | {each.level} | {each.meaning} |" for each in REASONS.values()]
    assert "\n".join(["| reason | level | meaning |", "|---|---|---|", *rows, ""]) in ANSWERS


@pytest.mark.parametrize(
    ("reason", "entry"),
    [("deadline-exceeded:wiki", "deadline-exceeded:SOURCE"), ("wiki-failed", "SOURCE-failed"), ("no-tree", "no-tree")],
)
def test_a_reason_with_a_source_matches_its_pattern(reason, entry):
    """A reason that contains a source uses the general entry unless it has its own."""
    assert degradation(reason) is REASONS[entry]


def test_an_unknown_reason_is_a_warning():
    """A reason that is not in the table, such as one from a custom planner, is a warning."""
    assert degradation("quota-used-up").level == "warning"
    assert degradation("quota-used-up").meaning


def test_warnings_leave_out_normal_outcomes():
    """``degraded`` has reasons of both levels, and ``warnings`` only those of level warning."""
    result = RetrievalResult([], degraded=["converged-early", "vector-failed", "node-cap-reached"])
    assert result.degraded == ("converged-early", "vector-failed", "node-cap-reached")
    assert result.warnings == warnings_in(result.degraded) == ("vector-failed",)
