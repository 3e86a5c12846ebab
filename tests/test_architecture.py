"""ARCHITECTURE.md is true: every module stands in it, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "langchain_hybridgraph"


def named() -> set[str]:
    return set(re.findall(r"`(langchain_hybridgraph/[\w/.]+)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf8")))


def test_what_is_named_exists():
    """No heading points to a file that is gone."""
    assert [path for path in sorted(named()) if not (ROOT / path).exists()] == []


def test_what_exists_is_named():
    """Every module stands in the text, itself or with its package."""
    known = named()
    missing = [
        str(module.relative_to(ROOT))
        for module in sorted(PACKAGE.rglob("*.py"))
        if module.name != "__init__.py"
        and not {str(module.relative_to(ROOT)), str(module.parent.relative_to(ROOT))} & known
    ]
    assert missing == []
