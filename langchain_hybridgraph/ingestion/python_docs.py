"""Reading the documentation of Python's standard library."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.documents import Document

_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "msilib", "site-packages"}
_MENTION = re.compile(r"`([A-Za-z_][\w.]*)`|([A-Za-z_][\w.]*)\(|([a-z]\w*\.[A-Za-z]\w*)")
_MOST_LINKS = 30

# (dotted name, kind, name with signature, docstring, source file)
_Item = tuple[str, str, str, str, str]


def read_python_docs() -> Iterator[Document]:
    """Yield a Document for each documented module, class, function and method of the standard library.

    Docstrings are read from the source files of the running interpreter with ``ast``; only modules that are compiled
    into the interpreter are imported. Private, undocumented and test code is left out.

    ``page_content`` is the name with its signature, an empty line, and the docstring. The metadata are ``title`` (the
    dotted name), ``uri`` (``python://asyncio/queues/Queue/put``, which is also the id), ``source`` (the file, relative
    to the library), ``labels`` (module, class, function or method) and ``links`` (the uris of other items that the
    docstring names).
    """
    from langchain_core.documents import Document

    items = {item[0]: item for item in _library_items(Path(sysconfig.get_paths()["stdlib"]))}
    for name, kind, head, doc, source in items.values():
        uri, title = "python://" + name.replace(".", "/"), name.removeprefix("builtins.")
        links = _mentioned(name, doc, items)
        metadata = {"title": title, "source": source, "uri": uri, "labels": [kind], "links": links}
        yield Document(f"{head}\n\n{doc}", metadata=metadata, id=uri)


def _library_items(library: Path) -> Iterator[_Item]:
    for file in sorted(library.rglob("*.py")):
        source = file.relative_to(library).as_posix()
        parts = [part for part in file.relative_to(library).with_suffix("").parts if part != "__init__"]
        if not parts or _LEFT_OUT.intersection(parts) or any(part.startswith("_") for part in parts):
            continue
        with suppress(OSError, SyntaxError, ValueError):  # a modified library must not cause a failure
            yield from _definitions(ast.parse(file.read_bytes()), ".".join(parts), source)
    for name in sorted(sys.builtin_module_names):
        if not name.startswith("_"):
            yield from _built_in(name)


def _definitions(parent: ast.Module | ast.ClassDef, name: str, source: str) -> Iterator[_Item]:
    doc = ast.get_docstring(parent)
    bases = ", ".join(map(ast.unparse, getattr(parent, "bases", ())))
    kind = "class" if isinstance(parent, ast.ClassDef) else "module"
    if doc:
        yield name, kind, f"{kind} {name}({bases})" if bases else f"{kind} {name}", doc, source
    kind = "method" if kind == "class" else "function"
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _definitions(node, f"{name}.{node.name}", source)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            path, doc = f"{name}.{node.name}", ast.get_docstring(node)
            if doc:
                yield path, kind, f"{path}({ast.unparse(node.args)})", doc, source


def _built_in(module: str) -> Iterator[_Item]:
    content = importlib.import_module(module)
    module = "os" if module in ("posix", "nt") else module  # the names are public in os
    yield from _described(content, "module", module, module)
    public = [(name, value) for name, value in sorted(vars(content).items()) if not name.startswith("_")]
    for name, value in public:
        if inspect.isbuiltin(value):
            yield from _described(value, "function", f"{module}.{name}", module)
        elif isinstance(value, type) and value.__name__ == name:  # not an alias, such as sys.last_type
            yield from _described(value, "class", f"{module}.{name}", module)
            for method, member in sorted(vars(value).items()):
                if not method.startswith("_") and callable(member):
                    yield from _described(member, "method", f"{module}.{name}.{method}", module)


def _described(value: object, kind: str, path: str, module: str) -> Iterator[_Item]:
    title = path.removeprefix("builtins.")
    if doc := inspect.getdoc(value):
        head = f"{kind} {title}" if kind in ("module", "class") else title
        yield path, kind, head, doc, f"{module} (built in)"


def _mentioned(name: str, doc: str, items: Mapping[str, _Item]) -> list[str]:
    """Return the uris of the other items that a docstring names in code, in the order of their first mention."""
    above = [name.rsplit(".", n)[0] for n in range(name.count(".") + 1)]
    links: dict[str, None] = {}
    for match in _MENTION.finditer(doc):
        word = next(filter(None, match.groups()))
        candidates = [*(f"{place}.{word}" for place in above), word, f"builtins.{word}"]
        link = next((each for each in candidates if each in items), None)
        if link is not None and not f"{link}.".startswith(f"{name}.") and not f"{name}.".startswith(f"{link}."):
            links["python://" + link.replace(".", "/")] = None
    return list(links)[:_MOST_LINKS]
