"""Reader of the documentation of Python's standard library."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.documents import Document

_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "msilib", "site-packages"}
_QUOTED_NAME = re.compile(
    r"`(?P<quoted>[A-Za-z_][\w.]*)`|(?P<called>[A-Za-z_][\w.]*)\(|(?P<dotted>[a-z]\w*\.[A-Za-z]\w*)"
)
_MOST_LINKS = 30

# (dotted name, kind, signature, docstring, source file)
_Item = tuple[str, str, str, str, str]


def read_python_docs() -> Iterator[Document]:
    """Yield a Document for each documented module, class, function and method of the standard library.

    Docstrings are read from the source files of the running interpreter with ``ast``; only modules that are compiled
    into the interpreter are imported. Nothing is downloaded. The topics of the language reference, which ``help()``
    shows, come last. Private, undocumented and test code is left out.

    ``page_content`` is the name with its signature, an empty line, and the docstring. The metadata are ``title`` (the
    dotted name), ``uri`` (``python://asyncio/queues/Queue/put``, which is also the id), ``source`` (the file, relative
    to the library), ``labels`` (module, class, function, method or topic) and ``links`` (the uris of other items that
    the docstring names).
    """
    from langchain_core.documents import Document

    library = Path(sysconfig.get_paths()["stdlib"])
    items = {item[0]: item for item in _library_items(library)}
    for name, kind, signature, doc, source in items.values():
        metadata = {
            "title": name.removeprefix("builtins."),
            "source": source,
            "uri": _uri(name),
            "labels": [kind],
            "links": [_uri(link) for link in _links(name, doc, items)],
        }
        before = {"class": "class ", "module": "module "}.get(kind, "")
        yield Document(f"{before}{metadata['title']}{signature}\n\n{doc}", metadata=metadata, id=_uri(name))
    for topic, text in _topics(library / "pydoc_data" / "topics.py"):
        metadata = {
            "title": text.partition("\n")[0],
            "source": "pydoc_data/topics.py",
            "uri": _uri(f"language.{topic}"),
        }
        yield Document(text, metadata={**metadata, "labels": ["topic"], "links": []}, id=metadata["uri"])


def _library_items(library: Path) -> Iterator[_Item]:
    for file in sorted(library.rglob("*.py")):
        relative = file.relative_to(library)
        parts = [part for part in relative.with_suffix("").parts if part != "__init__"]
        if not parts or _LEFT_OUT.intersection(parts) or any(part.startswith("_") for part in parts):
            continue
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue  # a modified library must not cause a failure
        if doc := ast.get_docstring(tree):
            yield ".".join(parts), "module", "", doc, relative.as_posix()
        yield from _definitions(tree, ".".join(parts), relative.as_posix())
    for name in sorted(sys.builtin_module_names):
        if not name.startswith("_"):
            yield from _built_in(name)


def _definitions(parent: ast.AST, above: str, source: str) -> Iterator[_Item]:
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        name, doc = f"{above}.{node.name}", ast.get_docstring(node)
        if isinstance(node, ast.ClassDef):
            if doc:
                yield name, "class", f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else "", doc, source
            yield from _definitions(node, name, source)
        elif doc:
            kind = "method" if isinstance(parent, ast.ClassDef) else "function"
            yield name, kind, f"({ast.unparse(node.args)})", doc, source


def _built_in(module: str) -> Iterator[_Item]:
    content = importlib.import_module(module)
    module = "os" if module in ("posix", "nt") else module  # the names are public in os
    for name, value in [("", content), *sorted(vars(content).items())]:
        is_alias = isinstance(value, type) and value.__name__ != name  # such as sys.last_type
        if name and (name.startswith("_") or is_alias or not (isinstance(value, type) or inspect.isbuiltin(value))):
            continue
        path = f"{module}.{name}".rstrip(".")
        kind = "module" if not name else "class" if isinstance(value, type) else "function"
        if doc := inspect.getdoc(value):
            yield path, kind, "", doc, f"{module} (built in)"
        for method, member in sorted(vars(value).items()) if kind == "class" else ():
            if not method.startswith("_") and callable(member) and (doc := inspect.getdoc(member)):
                yield f"{path}.{method}", "method", "", doc, f"{module} (built in)"


def _links(name: str, doc: str, items: dict[str, _Item]) -> list[str]:
    """Return the other items that a docstring names in code, in the order of their first mention."""
    above = [name.rsplit(".", n)[0] for n in range(name.count(".") + 1)]
    links: dict[str, None] = {}
    for match in _QUOTED_NAME.finditer(doc):
        word = next(filter(None, match.groups()))
        candidates = [*(f"{place}.{word}" for place in above), word, f"builtins.{word}"]
        link = next((each for each in candidates if each in items), None)
        if link is not None and not f"{link}.".startswith(f"{name}.") and not f"{name}.".startswith(f"{link}."):
            links[link] = None
    return list(links)[:_MOST_LINKS]


def _topics(file: Path) -> Iterator[tuple[str, str]]:
    try:
        (table,) = (node.value for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.Assign))
    except (OSError, SyntaxError, ValueError):
        return  # some distributions do not include the topics
    for name, text in sorted(ast.literal_eval(table).items()):
        yield name, text.strip().replace('"', "")


def _uri(name: str) -> str:
    return "python://" + name.replace(".", "/")
