"""ARCHITECTURE.md is true: its tour covers every folder, and the files that it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "langchain_hybridgraph"
TOUR = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Files\n")[0]


def test_the_tour_covers_every_folder():
    """Every folder directly in the package is named."""
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert folders
    assert folders - set(re.findall(r"`(\w+/)", TOUR)) == set()


def test_named_modules_exist():
    """Every module named in the tour is in the package, under the path it is named by."""
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")}
    named = re.findall(r"`([\w/]+\.py)`", TOUR)
    assert len(named) > 5
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in modules)] == []
