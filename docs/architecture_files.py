"""Write the list of files in ARCHITECTURE.md from the modules' docstrings.

    python docs/architecture_files.py [--check]

Each folder of the package becomes a table with one row per module: its name and the first line of its docstring.
``--check`` writes nothing; it exits with 1 and names the command when the list is out of date.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "langchain_hybridgraph"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- files -->\n", "<!-- /files -->\n"


def summary(module: Path) -> str:
    """Return the first line of a module's docstring, without its full stop.

    >>> summary(PACKAGE / "text" / "accents.py")
    'Letters without accents, and combining marks'
    """
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].removesuffix(".")


def files() -> str:
    """Return the list of all modules as Markdown, one table per folder."""
    tables = []
    for package in sorted(path.parent for path in PACKAGE.rglob("__init__.py")):
        modules = sorted(path for path in package.glob("*.py") if not path.name.startswith("__"))
        heading = f"### `{package.relative_to(ROOT)}/`\n\n{summary(package / '__init__.py')}.\n"
        rows = [f"| `{module.name}` | {summary(module)} |\n" for module in modules]
        tables.append("".join([heading, "\n| File | Contents |\n|---|---|\n" if rows else "", *rows]))
    return "\n" + "\n".join(tables) + "\n"


def updated(page: str) -> str:
    """Return the page with the current list of files between its two markers."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + files() + END + rest.partition(END)[2]


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if updated(page) == page:
        sys.exit()
    if sys.argv[1:] == ["--check"]:
        sys.exit("the list of files in ARCHITECTURE.md is out of date; run: python docs/architecture_files.py")
    PAGE.write_text(updated(page), encoding="utf-8")
