"""Share of small mistakes in the package that the tests notice.

    python benchmarks/_mutation.py --mutants 20 --seed 1 [--under langchain_hybridgraph/query] [--seconds 300]

Each mutant is one change at a random place of the code: another comparison, constant, operator or branch, or a dropped
``not``. A copy of the repository is changed, never the repository itself. The tests that mirror the changed module run
first, then its folder's, then all; a mutant survives if none of them fails within ``--seconds`` for each of the three.
A survivor either changes nothing that matters or is a gap in the tests.
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

ROOT = Path(__file__).resolve().parents[1]
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
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in annotations and (changed := mutated(node)) is not None:
            yield node, changed


def replaced(source: str, node: ast.expr, changed: ast.expr) -> str:
    """Return the source with the text of one expression replaced; columns of the syntax tree count bytes."""
    lines = source.encode().splitlines(keepends=True)
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[end_line - 1][end_column:] + b"".join(lines[end_line:])
    return (before + f"({ast.unparse(ast.fix_missing_locations(changed))})".encode() + after).decode()


def likely_tests(copy: Path, module: Path) -> list[list[Path]]:
    """Return groups of tests in the order in which they run: the mirrored file, the folder above it, and all."""
    tests = copy / "tests"
    folder = tests / module.relative_to(copy / "langchain_hybridgraph").parent
    while not folder.is_dir():
        folder = folder.parent
    mirrored = folder / f"test_{module.stem}.py"
    groups = [[mirrored] if mirrored.exists() else [], [] if folder == tests else [folder], [tests]]
    return [group for group in groups if group]


def noticed_by(copy: Path, module: Path, seconds: float) -> str | None:
    """Return the first group of tests that fails, or None if the mutant survives; a test that hangs has noticed it."""
    for group in likely_tests(copy, module):
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
        markers = "not (faults or notebooks or packaging or sets)"
        environment = os.environ | {"PYTHONPATH": str(copy)}
        name = str(group[0].relative_to(copy))
        try:
            done = subprocess.run(
                [*command, "-m", markers, *map(str, group)],
                cwd=copy,
                env=environment,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            if group[0] != copy / "tests":
                return f"{name} (does not end)"
            continue
        if done.returncode in (1, 2, 3):
            return name
    return None


def main() -> None:
    """Draw the mutants and print for each whether the tests notice it."""
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
        survivors = 0
        for path, node, changed in random.Random(arguments.seed).sample(draws, arguments.mutants):
            source = path.read_text("utf8")
            path.write_text(replaced(source, node, changed), "utf8")
            by = noticed_by(copy, path, arguments.seconds)
            path.write_text(source, "utf8")
            survivors += by is None
            where = f"{path.relative_to(copy)}:{node.lineno}"
            print(f"{where}: {ast.unparse(node)} → {ast.unparse(changed)}: {by or 'survived'}", flush=True)
        print(f"noticed {arguments.mutants - survivors} of {arguments.mutants}, seed {arguments.seed}")


if __name__ == "__main__":
    main()
