"""Share of small mistakes in the package that the tests notice.

    pip install pytest-cov
    python benchmarks/_mutation.py --mutants 60 --seed 1 [--under langchain_hybridgraph/search] [--seconds 300]

Each mutant is one change at a random place of the code: another comparison, constant, operator or branch, or a dropped
``not``. Flags that only add a check, such as ``strict=True``, are left alone. A copy of the repository is changed,
never the repository itself. All tests run once to record which of them execute which lines. Then the tests that execute
the changed line run, the fewest lines apart first; a mutant survives if none of them fails within ``--seconds``. A line
that runs only on import, or in another process, has the tests that mirror its module and its folder. A survivor either
changes nothing that matters, makes the tests too slow, or is a gap in the tests.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "--doctest-modules", "-p", "no:cacheprovider"]
PYTEST += ["-m", "not (faults or notebooks or packaging or sets)"]
HANG = ("-o", "faulthandler_timeout=100", "-o", "faulthandler_exit_on_timeout=true")  # since pytest 9
ALL = ("langchain_hybridgraph", "tests")
MOST_OF_A_FILE = 15  # tests of a file, except the one that mirrors the module, that run for a line which many execute
ONLY_CHECKS = ("strict", "slots", "kw_only")  # flags that change nothing in a program without mistakes
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult}


def mutated(node: ast.expr) -> ast.expr | None:
    """Return a changed copy of an expression, or None if this kind of expression is left alone."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARISONS:
            changed = ast.Compare(node.left, [COMPARISONS[type(operator)](), *node.ops[1:]], node.comparators)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            changed = ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.BoolOp():
            changed = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            changed = node.operand
        case ast.IfExp():
            changed = ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool(value)):
            changed = ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            changed = ast.Constant(value + 1)
        case _:
            changed = None
    return changed


def places(path: Path) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the expressions of a module that can be changed, each with its changed form."""
    tree = ast.parse(path.read_text("utf8"))
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    checks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in ONLY_CHECKS}
    for node in ast.walk(tree):
        is_kept = id(node) in annotations | checks
        if isinstance(node, ast.expr) and not is_kept and (changed := mutated(node)) is not None:
            yield node, changed


def replaced(source: str, node: ast.expr, changed: ast.expr) -> str:
    """Return the source with the text of one expression replaced; columns of the syntax tree count bytes."""
    lines = source.encode().splitlines(keepends=True)
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[end_line - 1][end_column:] + b"".join(lines[end_line:])
    return (before + f"({ast.unparse(ast.fix_missing_locations(changed))})".encode() + after).decode()


def run_tests(copy: Path, *arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest in the copy."""
    paths = [str(copy), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [*PYTEST, *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def likely_tests(copy: Path, module: Path, line: int, executed: CoverageData, existing: set[str]) -> list[str]:
    """Return the tests that executed a line, or the tests that mirror its module and its folder."""
    contexts = executed.contexts_by_lineno(str(module)).get(line, [])
    names = sorted({context.partition("|")[0] for context in contexts} & existing - {""})
    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(name.partition("::")[0], []).append(name)
    if names:
        mirrored = f"test_{module.stem}.py"
        files = sorted(by_file, key=lambda file: (not file.endswith(mirrored), len(by_file[file])))
        limits = {file: None if file.endswith(mirrored) else MOST_OF_A_FILE for file in files}
        return [name for file in files for name in by_file[file][: limits[file]]]
    folder = copy / "tests" / module.relative_to(copy / "langchain_hybridgraph").parent
    while not folder.is_dir():
        folder = folder.parent
    mirror = folder / f"test_{module.stem}.py"
    return [str(path.relative_to(copy)) for path in (mirror, folder) if path.exists()]


def noticed_by(copy: Path, tests: list[str], seconds: float) -> str | None:
    """Return the test that fails, or None if the mutant survives."""
    names = copy / "tests-of-the-mutant.txt"
    names.write_text("\n".join(tests), "utf8")
    try:
        done = run_tests(copy, "-x", "--tb=no", *HANG, f"@{names}", seconds=seconds)
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (
        [*lines, "the tests cannot be collected, or one does not end"][0] if done.returncode in (1, 2, 3, 4) else None
    )


def main() -> None:
    """Draw the mutants and print for each whether the tests notice it."""
    from coverage import CoverageData

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--under", default="langchain_hybridgraph")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "node_modules"))
        draws = [(path, *place) for path in sorted((copy / arguments.under).rglob("*.py")) for place in places(path)]
        run_tests(copy, "-n", "2", "--cov=langchain_hybridgraph", "--cov-context=test", "--cov-report=", *ALL)
        executed = CoverageData(str(copy / ".coverage"))
        executed.read()
        existing = set(run_tests(copy, "--collect-only", *ALL).stdout.splitlines())
        survivors = 0
        for path, node, changed in random.Random(arguments.seed).sample(draws, arguments.mutants):
            source = path.read_text("utf8")
            tests = likely_tests(copy, path, node.lineno, executed, existing)
            path.write_text(replaced(source, node, changed), "utf8")
            by = noticed_by(copy, tests, arguments.seconds)
            path.write_text(source, "utf8")
            survivors += by is None
            where = f"{path.relative_to(copy)}:{node.lineno}"
            print(f"{where}: {ast.unparse(node)} → {ast.unparse(changed)}: {by or 'survived'}", flush=True)
        print(f"noticed {arguments.mutants - survivors} of {arguments.mutants}, seed {arguments.seed}")


if __name__ == "__main__":
    main()
