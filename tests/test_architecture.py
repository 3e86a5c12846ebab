"""ARCHITECTURE.md covers every folder, and the package keeps to its budget."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "langchain_hybridgraph"
MOST_MODULES, MOST_CODE_LINES = 154, 30_000
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_page_covers_every_folder():
    """The page names every folder directly in the package."""
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert folders
    assert folders - set(re.findall(r"`(\w+/)", PAGE)) == set()


def test_named_modules_exist():
    """Every module that the page names exists in the package."""
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")}
    paths = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(paths) > 5
    assert [name for name in paths if not any(f"/{path}".endswith(f"/{name}") for path in modules)] == []


def test_first_lines_of_modules_have_fewer_than_ten_words():
    """The first line of every module's docstring has fewer than ten words."""
    lines = {
        str(path.relative_to(PACKAGE)): (
            ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        ).partition("\n")[0]
        for path in PACKAGE.rglob("*.py")
    }
    assert len(lines) > 100
    assert {name: line for name, line in lines.items() if not 0 < len(line.split()) < 10} == {}


def folders(root):
    """Return the folders with Python files below a folder, as paths relative to it."""
    return {str(path.parent.relative_to(root)) for path in root.rglob("*.py")} - {"."}


def test_the_tests_mirror_the_package():
    """Each folder directly in the package has a folder of tests; every other one is for a module or a known purpose."""
    tests, package = ({folder.partition("/")[0] for folder in folders(root)} for root in (ROOT / "tests", PACKAGE))
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert len(package) > 5
    assert package - tests == set()
    assert tests - package - modules == {"comparison", "deploy", "faults", "support"}


def test_folders_of_helpers_stay_small():
    """Every folder below tests/support has at most fifteen modules."""
    support = ROOT / "tests" / "support"
    assert not list(support.glob("*.py"))
    sizes = {path: len(list((support / path).glob("*.py"))) for path in folders(support)}
    assert sizes
    assert max(sizes.values()) <= 15


def code_lines(path):
    """Return the number of lines with a token other than a comment or docstring."""
    source = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def test_the_package_keeps_to_its_budget():
    """The package has at most the code lines and modules of its budget; whoever needs more removes something first."""
    sizes = [code_lines(path) for path in PACKAGE.rglob("*.py")]
    assert len(sizes) <= MOST_MODULES
    assert sum(sizes) <= MOST_CODE_LINES
