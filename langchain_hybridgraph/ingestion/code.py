"""Reading source code, logs and Python's documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_hybridgraph.ingestion.bounded import FilePart, read_text

if TYPE_CHECKING:
    from langchain_core.documents import Document

_SMALL = 1_000  # characters of a class that is not split into its methods, because it fits into one chunk
_LARGE = 50_000  # characters after which a part ends at the next line
_DEEPEST = 8  # columns of indentation at which the method of a class in a namespace begins
_ABOVE = re.compile(r"\s*(?:#|//|/\*|\*|@|\[|--|template\b)")  # comments, decorators and attributes above a definition
_CLASS = re.compile(
    r"\s*(?:\w{1,40}(?:\([\w: ]{1,40}\))?[ \t]+){0,6}(?:class|interface|struct|enum|trait|impl|protocol|extension"
    r"|object|module|namespace|mod|record|union|actor)\b(?![^{(]{0,200}\*)"  # but not a function that returns a struct
)
_OTHER = re.compile(
    r"\s*(?:if|for|foreach|while|until|unless|switch|case|do|try|with)\b"
)  # statements with lines inside
_WORD = re.compile(r"\w")
_CREATE = re.compile(r"\s*create\b", re.IGNORECASE)  # in SQL, a definition need not be indented
_CLOSING = re.compile(
    r"\s*(?:[^\w\s\"'`#/@<$~(\[-]|(?:end|fi|done|esac|then|else|elif|elsif|except|finally|catch|rescue)\b)"
)


def read_code(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the definitions of a source file and the lines between them. A log has no definitions.

    A class of more than ``_SMALL`` characters is divided into its head and its methods. In the metadata of a part,
    ``start_line`` and ``end_line`` are its first and last line, counted from 1. In Python, ``section_heading`` is the
    name of the definition, such as "Invoice.total". Comments and decorators directly above a definition belong to it.
    """
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    parts = _parts(lines, path.suffix.lower())
    for first, last, name in parts:
        for start, end in _cut_lines(lines, first, last):
            metadata = {"start_line": start + 1, "end_line": end} | ({"section_heading": name} if name else {})
            yield FilePart("\n".join(lines[start:end]), metadata, path.name)
    if not parts:
        yield FilePart("", {}, path.name)


def _parts(lines: list[str], suffix: str) -> list[tuple[int, int, str]]:
    """Return (first line, line after the last, name) of each part, without blank lines around it."""
    names = {0: ""}
    try:
        names.update(_python_starts(ast.parse("\n".join(lines)).body, "", lines) if suffix in (".py", ".pyi") else ())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # written for another version of Python
        suffix = ""
    if suffix not in (".py", ".pyi", ".log"):
        names.update(dict.fromkeys(_starts(lines, 0, len(lines), 0), ""))
    parts: list[tuple[int, int, str]] = []
    for start, end in pairwise([*sorted(names), len(lines)]):
        full = [number for number in range(start, end) if lines[number].strip()]
        if parts and full and not any(_WORD.search(lines[number]) for number in full):  # such as closing brackets
            parts[-1] = parts[-1][0], full[-1] + 1, parts[-1][2]
        elif full:
            parts.append((full[0], full[-1] + 1, names[start]))
    return parts


def _python_starts(body: list[ast.stmt], above: str, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (first line, name) of each definition, and (first line, ``above``) of the lines after it."""
    end = 0
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first, last = min(line.lineno for line in (node, *node.decorator_list)) - 1, node.end_lineno or node.lineno
        while first > end and _ABOVE.match(lines[first - 1]):
            first -= 1
        name = f"{above}.{node.name}" if above else node.name
        yield first, name
        if isinstance(node, ast.ClassDef) and _size(lines, first, last) > _SMALL:
            yield from _python_starts(node.body, name, lines)
        yield last, above
        end = last


def _starts(lines: list[str], first: int, last: int, indent: int) -> Iterator[int]:
    """Yield the first line of each definition with this indentation, in any language, and of the lines after it.

    A definition is a statement with deeper lines below it. It ends with a blank line or closing bracket, after which
    another statement begins.
    """
    starts = list(_statements(lines, first, last, indent))
    follows_definition = False
    for start, end in pairwise([*starts, last]):
        head = next((number for number in range(start, end) if not _ABOVE.match(lines[number])), end - 1)
        deeper = [_indent(line) for line in lines[head:end] if line.strip() and _indent(line) > indent]
        is_definition = _OTHER.match(lines[head]) is None and (bool(deeper) or _CREATE.match(lines[head]) is not None)
        if is_definition or follows_definition:
            yield start
        follows_definition = is_definition
        is_class = bool(deeper) and min(deeper) <= _DEEPEST and _CLASS.match(lines[head]) is not None
        if is_class and _size(lines, start, end) > _SMALL:
            yield from _starts(lines, head + 1, end, min(deeper))


def _statements(lines: list[str], first: int, last: int, indent: int) -> Iterator[int]:
    """Yield the lines at which a statement with this indentation begins, except directly below a similar line."""
    is_open, may_start = False, True
    for number in range(first, last):
        line = lines[number]
        depth = _indent(line)
        if depth == indent and line.strip():
            is_closing = _CLOSING.match(line) is not None
            if may_start and not is_open and not is_closing:
                yield number
            is_open = line.rstrip().endswith(("{", "(", "[")) or (is_open and not is_closing)
            may_start = is_closing
        else:
            may_start = not _ABOVE.match(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if "\t" not in line else _indent(line.expandtabs(4))


def _size(lines: list[str], first: int, last: int) -> int:
    return sum(map(len, lines[first:last]))


def _cut_lines(lines: list[str], first: int, last: int) -> Iterator[tuple[int, int]]:
    size = 0
    for number in range(first, last):
        size += len(lines[number]) + 1
        if size >= _LARGE:
            yield first, number + 1
            first, size = number + 1, 0
    if first < last:
        yield first, last


# -- the documentation of Python's standard library ------------------------------------------------------------------

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
    from langchain_core.documents import Document  # not needed by the process that reads source code

    library = Path(sysconfig.get_paths()["stdlib"])
    items = {item[0]: item for item in _library_items(library)}
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
    for name, value in sorted(vars(content).items()):
        is_alias = isinstance(value, type) and value.__name__ != name  # such as sys.last_type
        if name.startswith("_") or is_alias or not (isinstance(value, type) or inspect.isbuiltin(value)):
            continue
        is_class = isinstance(value, type)
        yield from _described(value, "class" if is_class else "function", f"{module}.{name}", module)
        for method, member in sorted(vars(value).items()) if is_class else ():
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
