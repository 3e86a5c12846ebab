"""Hybrid, graph and memory retrieval for LangChain.

``ingestion/`` reads text, ``stores/`` keeps it, ``search/`` searches it, and ``vectorstores/`` and ``retrievers/`` are
the LangChain interface. ARCHITECTURE.md describes every folder.

Public names are listed in ``__init__.pyi``, which type checkers read as well. They are imported on first use, so
importing the package costs almost nothing.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Any

__version__ = "0.1.0"


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names are in its ``__init__.pyi``.

    A name is imported when it is first used.
    """
    modules = {
        alias.name: str(statement.module)
        for statement in ast.parse(get_data(package, "__init__.pyi") or b"").body
        if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith(f"{package}.")
        for alias in statement.names
    }
    names = sorted(modules)

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name, lambda: names, names


__getattr__, __dir__, _names = lazy_names(__name__)
__all__ = ["__version__", *_names]  # noqa: PLE0604 - the names in __init__.pyi
